"""What the scripted fake says, for those who test their own agents or editors with it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.waiting import PATIENCE_SECONDS
from treadle.errors import ConfigurationError, InvalidAgent, ModelRateLimited, ModelStreamBroken
from treadle.models.completion import Delta, ToolSpec
from treadle.models.scripted import Reply, Scripted, ScriptedCall, ScriptedRequest
from treadle.thread.message import Message, ToolCall, Usage
from treadle.turn.agent import Agent


async def test_replies_come_in_order_and_say_what_they_were_asked() -> None:
    scripted = Scripted(["Hello Mac.", Reply("Bye.", reasoning="Short now.", usage=Usage(3, 2))])
    deltas: list[Delta] = []
    agent = Agent().run(scripted).on("delta", lambda _, delta: deltas.append(delta))
    agent.on("turn", lambda env, _: env.tools.append(ToolSpec("read", "", {})))

    first = await agent.start("Hi")
    second = await agent.start("Leaving")

    assert first.messages[-1] == Message("assistant", "Hello Mac.", model="scripted")
    assert second.messages[-1] == Message(
        "assistant", "Bye.", reasoning="Short now.", model="scripted", usage=Usage(3, 2)
    )
    assert deltas == [
        Delta("text", "Hello"),
        Delta("text", " Mac."),
        Delta("reasoning", "Short"),
        Delta("reasoning", " now."),
        Delta("text", "Bye."),
    ]
    assert scripted.requests == [
        ScriptedRequest((Message("user", "Hi"),), ("read",)),
        ScriptedRequest((Message("user", "Leaving"),), ("read",)),
    ]


async def test_calls_get_ids_that_are_new_in_their_conversation() -> None:
    calls = [ScriptedCall("read", {"path": "a"}), ScriptedCall("now", id="mine")]
    env = await Agent().run(Scripted([Reply("Yes.", calls=calls)])).start("Hi")
    assert env.messages[-1].tool_calls == [
        ToolCall("call_1", "read", {"path": "a"}),
        ToolCall("mine", "now"),
    ]
    history = [*env.messages, Message("user", "Again")]
    again = await Agent().run(Scripted([Reply(calls=calls[:1])])).start(history)
    assert again.messages[-1].tool_calls == [ToolCall("call_3", "read", {"path": "a"})]


async def test_a_script_that_runs_out_says_so() -> None:
    agent = Agent().run(Scripted(["One."]))
    await agent.start("Hi")
    with pytest.raises(ConfigurationError, match="has 1 replies and this is model call 2"):
        await agent.start("Hi")


async def test_an_error_comes_after_the_text_which_is_kept_as_partial() -> None:
    error = ModelStreamBroken("cut", partial="Half")
    agent = Agent().run(Scripted([Reply("Half", error=error)]))
    said: list[Message] = []
    agent.on("done", lambda env, _: said.extend(env.messages))
    with pytest.raises(ModelStreamBroken, match="cut"):
        await agent.start("Hi")
    assert said[1:] == [Message("assistant", "Half", model="scripted", partial=True)]


async def test_a_reply_cut_by_length_ends_the_turn_without_its_calls() -> None:
    reply = Reply("Half", calls=[ScriptedCall("read")], finish="length")
    env = await Agent().run(Scripted([reply])).start("Hi")
    assert (env.stop_reason, env.should_exit) == ("max_tokens", True)
    assert env.messages[-1] == Message("assistant", "Half", model="scripted")


async def test_a_cancel_between_two_words_keeps_the_first() -> None:
    agent = Agent().run(Scripted(["One two three"]))
    said: list[Message] = []
    agent.on("done", lambda env, _: said.extend(env.messages))
    agent.on("delta", lambda _, delta: turn.cancel())
    turn = asyncio.create_task(agent.start("Hi"))
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert said[1:] == [Message("assistant", "One", model="scripted", partial=True)]


async def test_a_cancel_during_the_delay_keeps_nothing() -> None:
    agent = Agent().run(Scripted([Reply("Late", delay_seconds=60)]))
    called = asyncio.Event()
    agent.on("model_call", lambda *_: called.set())
    turn = asyncio.create_task(agent.start("Hi"))
    await asyncio.wait_for(called.wait(), PATIENCE_SECONDS)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


async def test_a_script_file_starts_over_at_its_end(tmp_path: Path) -> None:
    path = _script(
        tmp_path,
        {"text": "One.", "usage": {"input_tokens": 4}},
        {"echo": True},
        {"calls": [{"name": "read", "arguments": {"path": "a"}}]},
        {"error": {"reason": "model_rate_limited", "message": "slow", "retry_after_seconds": 2}},
    )
    agent = Agent().run(Scripted.from_file(path))
    model = f"scripted:{path}"

    async def ask() -> Message:
        return (await agent.start("What I said")).messages[-1]

    for _ in range(2):
        assert await ask() == Message("assistant", "One.", model=model, usage=Usage(4))
        assert await ask() == Message("assistant", "What I said", model=model)
        assert (await ask()).tool_calls == [ToolCall("call_1", "read", {"path": "a"})]
        with pytest.raises(ModelRateLimited, match="slow") as raised:
            await ask()
        assert raised.value.data == {"retry_after_seconds": 2}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 3"),
        ("[]", "line 3"),
        ('{"txt": "typo"}', "line 3.*txt"),
        ('{"error": {"reason": "tired"}}', "line 3.*tired.*model_auth"),
        ('{"error": {"reason": "model_auth", "colour": 1}}', "line 3.*colour"),
        ('{"text": "\ud83d"}', "line 3"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_bytes(b'{"text": "fine"}\n\n' + line.encode("utf-8", "surrogatepass") + b"\n")
    with pytest.raises(InvalidAgent, match=f"{problem}") as raised:
        Scripted.from_file(path)
    assert raised.value.data == {"path": str(path)}
    assert str(path) in raised.value.message


@pytest.mark.parametrize("content", [None, b"", b"\n \n"])
def test_a_script_file_without_replies_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "replies.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidAgent, match=r"replies\.jsonl (cannot be read|holds no reply)"):
        Scripted.from_file(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "sparse"])
def test_what_is_no_file_with_an_end_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "replies.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(5 << 30)
    with pytest.raises(InvalidAgent, match=r"not a regular file|larger than 16 MiB") as raised:
        Scripted.from_file(path)
    assert raised.value.data == {"path": str(path)}


def _script(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
