"""Calls of a turn that was stopped before they began: they did not run, and say so."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.turns import Thinking, call, cancelled
from treadle.models.completion import ToolSpec
from treadle.permissions.approvals import Answer, Approvals, Question
from treadle.permissions.policy import Policy
from treadle.thread.message import ToolCall
from treadle.thread.repair import INTERRUPTED_TEXT, NEVER_ALLOWED_TEXT, NOT_RUN_TEXT
from treadle.thread.replay import load
from treadle.tools.session import ToolSession
from treadle.tools.tool import Tool, ToolContext
from treadle.turn.agent import Agent
from treadle.turn.loop import ToolResultLoop
from treadle.turn.session_log import SessionLog
from treadle.turn.tools import Tools


def results(path: Path) -> list[tuple[str, str]]:
    """Calls and their results, as the thread's file has them."""
    return [(m.tool_call_id, m.text) for m in load(path).messages if m.role == "tool"]


async def test_a_call_that_waits_for_a_person_or_for_its_files_says_that_it_did_not_run(
    tmp_path: Path,
) -> None:
    class Silent:
        """A person who never answers."""

        async def ask(self, question: Question) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            return "deny"

    async def handle(arguments: object, context: ToolContext) -> str:
        return "never"

    asked, path = asyncio.Event(), tmp_path / "chat.jsonl"
    spec = {"type": "object"}
    allowed = Tool(ToolSpec("keep", "", spec), "read", handle, writes=lambda _: ["a"])
    asking = Tool(ToolSpec("write", "", spec), "write", handle)
    session = ToolSession(approvals=Approvals(Silent()))
    agent = Agent().use(SessionLog, path=path).use(ToolResultLoop)
    agent.use(Tools, tools=[allowed, asking], session=session, policy=Policy("ask"))
    agent.run(call(ToolCall("1", "keep"), ToolCall("2", "write")))

    async with session.writing:
        await cancelled(agent.start("go"), once=asked)

    assert results(path) == [("1", NOT_RUN_TEXT), ("2", NEVER_ALLOWED_TEXT)]


async def test_a_call_through_a_pipeline_of_its_own_may_have_had_effects(tmp_path: Path) -> None:
    async def handle(arguments: object, context: ToolContext) -> str:
        return "never"

    thinking, path = Thinking(), tmp_path / "chat.jsonl"
    tool = Tool(ToolSpec("odd", "", {"type": "object"}), "read", handle, pipeline=thinking)
    agent = Agent().use(SessionLog, path=path).use(Tools, tools=[tool])
    agent.run(call(ToolCall("1", "odd")))

    await cancelled(agent.start("go"), once=thinking.begun)

    assert results(path) == [("1", INTERRUPTED_TEXT)]
