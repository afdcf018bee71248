"""How a running call tells how far it is: at a pace, in order, the last word always."""

from __future__ import annotations

import asyncio

import pytest

from support.turns import call
from support.waiting import PATIENCE_SECONDS
from treadle.models.completion import ToolSpec
from treadle.thread.message import ToolCall
from treadle.tools.tool import Tool, ToolContext
from treadle.turn import progress as turn_progress
from treadle.turn.agent import Agent
from treadle.turn.events import ToolProgressed
from treadle.turn.tools import Tools


async def test_progress_is_told_at_a_pace_and_the_last_word_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_progress, "PACE_SECONDS", 3600)
    told: list[ToolProgressed] = []
    kept: list[ToolContext] = []

    async def handle(arguments: object, context: ToolContext) -> str:
        kept.append(context)
        for number in range(100):
            context.progress(f"line {number}", number, 100)
        await asyncio.to_thread(context.progress, "from a thread", None, None)
        await asyncio.sleep(0)
        return "done"

    work = Tool(ToolSpec("work", "", {"type": "object"}), "read", handle)
    order: list[str] = []
    agent = Agent().use(Tools, tools=[work]).run(call(ToolCall("1", "work")))
    agent.on("tool_progress", lambda _, progress: told.append(progress))
    for name in ("tool_call", "tool_progress", "tool_result"):
        agent.on(name, lambda _, __, name=name: order.append(name))
    await agent.start("go")
    kept[0].progress("too late", None, None)

    made = ToolCall("1", "work")
    assert told == [
        ToolProgressed(made, "line 0", 0, 100),
        ToolProgressed(made, "from a thread"),
    ]
    assert order == ["tool_call", "tool_progress", "tool_progress", "tool_result"]


async def test_progress_goes_on_after_each_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_progress, "PACE_SECONDS", 0.001)
    second = asyncio.Event()

    async def handle(arguments: object, context: ToolContext) -> str:
        context.progress("one", None, None)
        context.progress("two", None, None)
        # Without another word from the call the one that waited is told.
        await second.wait()
        return "done"

    work = Tool(ToolSpec("work", "", {"type": "object"}), "read", handle)
    agent = Agent().use(Tools, tools=[work]).run(call(ToolCall("1", "work")))
    agent.on("tool_progress", lambda _, told: second.set() if told.message == "two" else None)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await agent.start("go")
