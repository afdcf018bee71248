"""The order of the daemon's layers, seen in what a model is asked and what is kept."""

from __future__ import annotations

from pathlib import Path

from support.turns import roles_and_texts, turn_records
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import Message
from treadle.thread.thread import Thread
from treadle.tools.files.read import read
from treadle.turn.default import default_agent
from treadle.turn.events import TurnDone


async def test_history_is_restored_below_the_instructions_and_every_pass_sees_both(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chat.jsonl"
    thread = Thread.open(path)
    model = Scripted(
        [
            "Hello Mac.",
            Reply("Let me look.", calls=[ScriptedCall("read", {"path": "a"}, id="1")]),
            Reply(calls=[ScriptedCall("read", {"path": "a"}, id="2")]),
        ]
    )
    agent = default_agent(
        thread=thread,
        instructions="Be brief.",
        max_turns=2,
        tools=[read],
        sandbox=VirtualSandbox({"a": b"hello"}),
        completion=model,
    )
    ends: list[TurnDone] = []
    agent.on("done", lambda _, done: ends.append(done))

    await agent.start("My name is Mac.")
    await agent.start([Message("user", "And now?")])

    assert [request.tools for request in model.requests] == [("read",)] * 3
    assert roles_and_texts(list(model.requests[2].messages))[:6] == [
        ("system", "Be brief."),
        ("user", "My name is Mac."),
        ("assistant", "Hello Mac."),
        ("user", "And now?"),
        ("assistant", "Let me look."),
        ("tool", model.requests[2].messages[5].text),
    ]
    # The guard is inside the loop and counts one turn alone; its end is kept by the log around it.
    assert [done.stop_reason for done in ends] == ["end_turn", "max_turns"]
    assert [(r.stop_reason, r.steps) for r in turn_records(path) if r.event == "end"] == [
        ("end_turn", 1),
        ("max_turns", 2),
    ]
    assert [message.role for message in thread.messages] == [
        *("user", "assistant"),
        *("user", "assistant", "tool", "assistant", "tool"),
    ]
    thread.close()
