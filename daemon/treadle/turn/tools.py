"""The tools of a turn: advertised to the model, run when it calls them.

Belongs innermost, around the completion and what makes it try again: one pass is one model call
and the results of what it called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from treadle.errors import ConfigurationError
from treadle.permissions.policy import Policy
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.stack.stack import App
from treadle.thread.message import Content, Message, ToolCall
from treadle.thread.repair import INTERRUPTED_TEXT, NOT_RUN_TEXT
from treadle.tools.pipeline import DEFAULT, ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import CallEnv, Tool, ToolContext, ToolSource
from treadle.turn.env import Env
from treadle.turn.events import ToolCallStarted, ToolResultLanded
from treadle.turn.progress import Progress

logger = logging.getLogger(__name__)

# Calls of one batch that run at the same time; the others wait their turn.
PARALLEL_CALLS = 8

# Tools that are told to stop get this long; one that stays longer is left behind, its call
# answered as interrupted.
STOP_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class _Run:
    """A call on its way to its outcome.

    Attributes:
        task: brings the outcome.
        has_its_turn: it waits no longer for others of its batch.
    """

    call: ToolCall
    task: asyncio.Task[ToolOutcome] = field(init=False)
    has_its_turn: bool = False


class Tools:
    """Advertises `tools` and answers the calls of each model call, in the order of the calls.

    Args:
        app: the completion.
        tools: what the model may call; names are distinct.
        source: brings further tools, which may be others at each pass; one that has the name of
            one of `tools` is left out.
        sandbox: where they may act; without one an empty, virtual one for each turn.
        policy: what they may do; read-only where nobody says otherwise.
        session: what lives from call to call; without one it lasts as long as this layer.
        pipeline: what each call runs through, unless its tool has one of its own.
    """

    def __init__(
        self,
        app: App[Env],
        *,
        tools: Sequence[Tool],
        source: ToolSource | None = None,
        sandbox: Sandbox | None = None,
        policy: Policy | None = None,
        session: ToolSession | None = None,
        pipeline: App[CallEnv] = DEFAULT,
    ) -> None:
        self._own = {tool.spec.name: tool for tool in tools}
        if len(self._own) != len(tools):
            raise ConfigurationError("two tools have the same name; the model could not choose")
        self._tools = self._own
        self._source = source
        self._app = app
        self._pipeline = pipeline
        self._context = ToolContext(
            VirtualSandbox() if sandbox is None else sandbox,
            session or ToolSession(),
            policy or Policy(),
        )

    async def __call__(self, env: Env) -> None:
        """Let the model answer, then run what it called."""
        if self._source is not None:
            brought = {tool.spec.name: tool for tool in await self._source()}
            self._tools = {**self._own, **{n: brought[n] for n in brought if n not in self._own}}
        env.tools = [tool.spec for tool in self._tools.values()]
        with env.timed("model_seconds"):
            await self._app(env)
        last = env.messages[-1]
        if last.role == "assistant" and last.tool_calls:
            with env.timed("tools_seconds"):
                await self._run_batch(env, last.tool_calls)

    async def _run_batch(self, env: Env, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side; each result is kept as soon as those before it are.

        However this ends, every call has exactly one result in the thread.
        """
        bound = asyncio.Semaphore(PARALLEL_CALLS)
        batch = deque(_Run(call) for call in calls)
        for run in batch:
            run.task = asyncio.create_task(self._run(env, run, bound), name=run.call.name)
        tasks = [run.task for run in batch]
        try:
            while batch:
                # Not `await run`: a tool that cancels itself must not seem to cancel the turn.
                await asyncio.wait({batch[0].task})
                # Landing itself does not suspend, so that no cancel comes in between.
                outcome = _outcome(batch[0])
                await env.prepare(_message(batch[0].call, outcome))
                await _land_first(env, batch, outcome)
        finally:
            try:
                await _stop(tasks)
            finally:
                while batch:
                    await _land_first(env, batch, _outcome(batch[0]))

    async def _run(self, env: Env, run: _Run, bound: asyncio.Semaphore) -> ToolOutcome:
        call = run.call
        async with bound:
            run.has_its_turn = True
            tool = self._tools.get(call.name)
            env.emit("tool_call", ToolCallStarted(call, tool.capability if tool else "none"))
            progress = Progress(call, lambda told: env.emit("tool_progress", told))
            context = replace(self._context, call=call, progress=progress)
            try:
                return await run_call(call, self._tools, context, self._pipeline)
            finally:
                progress.end()


async def _land_first(env: Env, batch: deque[_Run], outcome: ToolOutcome) -> None:
    """Keep the result of the batch's first call, take the call out, tell whoever listens."""
    call = batch[0].call
    await env.append(_message(call, outcome))
    batch.popleft()
    env.emit(
        "tool_result",
        ToolResultLanded(call, env.messages[-1], outcome.truncated, outcome.seconds),
    )


def _message(call: ToolCall, outcome: ToolOutcome) -> Message:
    content: Content = outcome.content
    if outcome.blocks:
        content = [{"type": "text", "text": outcome.content}, *outcome.blocks]
    return Message("tool", content, tool_call_id=call.id, is_error=not outcome.ok)


def _outcome(run: _Run) -> ToolOutcome:
    """Return what a call came to; one that did not end by itself was interrupted."""
    task = run.task
    if task.done() and not task.cancelled():
        error = task.exception()
        if error is None:
            return task.result()
        logger.error("a call of %s failed outside its pipeline", run.call.name, exc_info=error)
    text = INTERRUPTED_TEXT if run.has_its_turn else NOT_RUN_TEXT
    return ToolOutcome(text, ok=False, truncated=False)


async def _stop(runs: Collection[asyncio.Task[ToolOutcome]]) -> None:
    """Cancel what still runs and wait, within a bound, until it has ended.

    Raises:
        asyncio.CancelledError: the turn was cancelled meanwhile, which the tools were told too:
            code that swallowed one cancellation seldom swallows the next.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + STOP_SECONDS
    cancelled: asyncio.CancelledError | None = None
    while (late := {run for run in runs if not run.done()}) and clock() < end:
        for run in late:
            run.cancel()
        try:
            await asyncio.wait(late, timeout=end - clock())
        except asyncio.CancelledError as caught:
            cancelled = caught
    if late:
        names = ", ".join(sorted(run.get_name() for run in late))
        logger.warning("left behind, for they do not stop: %s", names)
    if cancelled is not None:
        raise cancelled
