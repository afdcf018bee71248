"""A conversation that fills the model's window is compacted before it is sent.

Belongs inside the loop, so that it sees every model call, inside MaxIterations, since it is no
step, and around Tools. Decides when; a `Compactor` decides the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.compaction.compactor import Compactor
from treadle.compaction.counting import tokens_of, tokens_of_tools
from treadle.compaction.told import Compacted, Compacting, Trigger
from treadle.errors import ContextOverflow
from treadle.stack.stack import App
from treadle.thread.thread import Thread
from treadle.tools.tool import Tool, ToolSource
from treadle.turn.env import Env

# So often may a compaction for one model call be without use: it came to nothing, or the provider
# refused what it left. The first may have been misled by its figures, a second is not.
STRIKES = 2


class Compaction:
    """Compacts the thread of a turn where its window fills, or where the provider says it has.

    Without a thread nothing is compacted: what is given up must be kept somewhere.

    Args:
        app: the rest of the stack: one model call and the tools that it calls.
        compactor: the session's.
        tools: what the model is told of, which fills the window too.
        source: brings further tools.
    """

    def __init__(
        self,
        app: App[Env],
        *,
        compactor: Compactor,
        tools: Sequence[Tool] = (),
        source: ToolSource | None = None,
    ) -> None:
        self._app = app
        self._compactor = compactor
        self._tools = tools
        self._source = source

    async def __call__(self, env: Env) -> None:
        """Compact where it is due, then pass the env inwards.

        Raises:
            ContextOverflow: the conversation does not fit, whatever is given up; it says what
                is fixed in it, and how large the window is.
        """
        thread = env.thread
        if not isinstance(thread, Thread):
            await self._app(env)
            return
        overhead = await self._overhead(env)
        await self._compactor.count(thread, overhead)
        if self._compactor.is_due(thread, overhead):
            await self._compact(env, thread, overhead, "threshold")
            await self._compactor.count(thread, overhead)
            self._compactor.require_room(thread, overhead)
        calls, strikes = env.model_calls, 0
        refused = await self._call(env)
        while refused is not None:
            self._compactor.learn(refused)
            compacted = await self._compact(env, thread, overhead, "overflow")
            if compacted.outcome == "completed":
                # It is the same call that is made again, also where a turn's calls are counted.
                env.model_calls = calls
                refused = await self._call(env)
            if refused is None:
                return
            strikes += 1
            if strikes >= STRIKES:
                raise self._compactor.overflow(thread, overhead) from refused

    async def _call(self, env: Env) -> ContextOverflow | None:
        """Pass the env inwards; return the overflow where that was all that came of it."""
        said = (env.deltas, env.placed)
        try:
            await self._app(env)
        except ContextOverflow as overflow:
            if (env.deltas, env.placed) != said:
                raise
            return overflow
        return None

    async def _compact(
        self, env: Env, thread: Thread, overhead: int, trigger: Trigger
    ) -> Compacted:
        def tell(told: Compacting | Compacted) -> None:
            if isinstance(told, Compacting):
                env.emit("compacting", told)
                return
            # Before anybody hears of it, and also where the turn is being cancelled.
            env.beside += told.usage
            if told.outcome == "completed":
                env.show(thread.view())
            env.emit("compacted", told)

        with env.timed("compaction_seconds"):
            return await self._compactor.run(thread, overhead=overhead, trigger=trigger, tell=tell)

    async def _overhead(self, env: Env) -> int:
        """Count what is sent beside the conversation: the instructions, and what tools there are.

        In the first pass nobody has put the tools into the env yet.
        """
        specs = env.tools
        if not specs:
            brought = await self._source() if self._source is not None else ()
            specs = [tool.spec for tool in (*self._tools, *brought)]
        instructions = [message for message in env.messages[:1] if message.role == "system"]
        return tokens_of(instructions) + tokens_of_tools(specs)
