"""What a tool returned is in its thread, also where the turn is cancelled at that very moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.turns import cancelled
from treadle.models.completion import ToolSpec
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.thread.attachments import attachment
from treadle.thread.blobs import Blobs, check_blobs
from treadle.thread.message import Message
from treadle.thread.replay import load
from treadle.tools.tool import Answer, Tool, ToolContext
from treadle.turn.agent import Agent
from treadle.turn.loop import ToolResultLoop
from treadle.turn.session_log import SessionLog
from treadle.turn.tools import Tools

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)


async def test_a_cancel_while_bytes_are_written_takes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = asyncio.Event()

    async def stuck(self: Blobs, *messages: Message) -> None:
        self.hold(*messages)
        writing.set()
        await asyncio.Event().wait()

    async def shot(arguments: object, context: ToolContext) -> Answer:
        return Answer("a shot", (attachment("image", PNG, "image/png"),))

    monkeypatch.setattr(Blobs, "prepare", stuck)
    tool = Tool(ToolSpec("shot", "", {"type": "object"}), "read", shot)
    model = Scripted([Reply(calls=[ScriptedCall("shot", id="1"), ScriptedCall("shot", id="2")])])
    path = tmp_path / "a.jsonl"
    agent = Agent().use(SessionLog, path=path).use(ToolResultLoop).use(Tools, tools=[tool])
    await cancelled(agent.run(model).start("Shoot"), once=writing)

    messages = load(path).messages
    shots = [(each.tool_call_id, each.text) for each in messages if each.role == "tool"]
    assert shots == [("1", "a shot"), ("2", "a shot")]
    assert check_blobs(path, messages) == []
