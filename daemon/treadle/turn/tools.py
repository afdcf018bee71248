"""The tools of a turn: advertised to the model, run when it calls them.

Belongs innermost, directly around the completion: one pass is one model call and the results
of what it called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from treadle.errors import ConfigurationError
from treadle.sandbox.sandbox import Sandbox
from treadle.stack.stack import App
from treadle.thread.message import Message, ToolCall
from treadle.thread.repair import interrupted_result
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.tool import Tool, ToolContext
from treadle.turn.env import Env
from treadle.turn.events import ToolCallStarted, ToolResultLanded

# Calls of one batch that run at the same time; the others wait their turn.
PARALLEL_CALLS = 8

# A tool that is told to stop gets this long; one that stays longer is left behind, its call
# answered as interrupted.
STOP_SECONDS = 2.0


class Tools:
    """Advertises `tools` and answers the calls of each model call, in the order of the calls.

    Args:
        app: the completion.
        tools: what the model may call; names are distinct.
        sandbox: where they may act.
    """

    def __init__(self, app: App[Env], *, tools: Sequence[Tool], sandbox: Sandbox) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ConfigurationError("two tools have the same name")
        self._app = app
        self._context = ToolContext(sandbox=sandbox)

    async def __call__(self, env: Env) -> None:
        """Let the model answer, then run what it called."""
        env.tools = [tool.spec for tool in self._tools.values()]
        await self._app(env)
        last = env.messages[-1]
        if last.role == "assistant" and last.tool_calls:
            await self._run_batch(env, last.tool_calls)

    async def _run_batch(self, env: Env, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side; each result is kept as soon as those before it are.

        However this ends, every call has exactly one result in the thread.
        """
        bound = asyncio.Semaphore(PARALLEL_CALLS)
        running = [asyncio.create_task(self._run(env, call, bound)) for call in calls]
        answered = 0
        try:
            for call, task in zip(calls, running, strict=True):
                outcome, duration_seconds = await task
                await self._land(env, call, outcome, duration_seconds)
                answered += 1
        finally:
            if answered < len(calls):
                await _stop(running)
                for call in calls[answered:]:
                    await env.append(interrupted_result(call))

    async def _run(
        self, env: Env, call: ToolCall, bound: asyncio.Semaphore
    ) -> tuple[ToolOutcome, float]:
        async with bound:
            tool = self._tools.get(call.name)
            env.emit("tool_call", ToolCallStarted(call, tool.capability if tool else "none"))
            began = time.monotonic()
            outcome = await run_call(call, self._tools, self._context)
            return outcome, time.monotonic() - began

    async def _land(
        self, env: Env, call: ToolCall, outcome: ToolOutcome, duration_seconds: float
    ) -> None:
        await env.append(
            Message("tool", outcome.content, tool_call_id=call.id, is_error=not outcome.ok)
        )
        env.emit(
            "tool_result",
            ToolResultLanded(call, env.messages[-1], outcome.truncated, duration_seconds),
        )


async def _stop(tasks: Sequence[asyncio.Task[tuple[ToolOutcome, float]]]) -> None:
    """Cancel what still runs and wait, within a bound, until it has ended."""
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=STOP_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            # Seen, so that nobody reports it as never retrieved; the turn's own end says more.
            task.exception()
