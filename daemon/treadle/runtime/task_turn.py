"""One task: a sub-agent's turn in a thread of its own, from its beginning to what became of it.

Owns that it ends exactly once, whatever happens, and then holds nothing. Refuses to know who may
give tasks, and how far a sub-agent's rights go.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from treadle.errors import StorageDegraded, TreadleError
from treadle.thread.thread import Thread
from treadle.tools.delegate import TaskEnded
from treadle.tools.session import ToolSession
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TaskTold, TurnDone

logger = logging.getLogger(__name__)

# A turn whose tools take the two seconds that they are given, and a moment to write its end; the
# turn that gave the task is left behind half a second later.
STOP_SECONDS = 2.5

# What whoever watches the parent hears; a task's end is the result of the call that gave it.
TOLD = (
    "delta",
    "tool_call",
    "tool_progress",
    "tool_result",
    "retrying",
    "compacting",
    "compacted",
)

# Tasks that would not end; the loop itself keeps none alive.
_left_behind: set[asyncio.Task[TaskEnded]] = set()


@dataclass(slots=True, eq=False)
class TaskTurn:
    """A task from the moment at which it has a thread.

    Args:
        number: the task's.
        name: the sub-agent's.
        thread: where its turn is kept; ours from now on.
        tools: its tools' side; ours from now on.
        agent: the sub-agent, built on both.
        session_id: what its env is told that session is.
        parent: the env of the turn that gave the task.
    """

    number: int
    name: str
    thread: Thread
    tools: ToolSession
    agent: Agent
    session_id: str
    parent: Env
    _env: Env | None = None
    _done: TurnDone | None = None
    _work: asyncio.Task[TaskEnded] | None = None

    async def run(self, prompt: str) -> TaskEnded:
        """Run it to its end.

        Raises:
            asyncio.CancelledError: the parent's turn was cancelled; so is this one, and it ends
                as that one does.
        """
        self._follow()
        self._work = work = asyncio.create_task(self._run(prompt), name=f"task-{self.number}")
        try:
            # Not `await work`: a task that cancels itself must not seem to cancel its parent.
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await self.stop()
            raise
        return work.result()

    async def stop(self) -> None:
        """Stop it, within a bound; one that would not end is left behind and can say nothing."""
        work = self._work
        if work is None or work.done():
            return
        if self._env is not None:
            self._env.stop_reason = self.parent.stop_reason
        work.cancel()
        try:
            await asyncio.wait({work}, timeout=STOP_SECONDS)
        finally:
            if not work.done():
                logger.error("a task does not end though it was told to; it is left behind")
                _left_behind.add(work)
                work.add_done_callback(_end_at_last)
                self._close_thread()

    def _follow(self) -> None:
        """Tell the parent's subscribers what happens here."""

        def begin(env: Env, _: object) -> None:
            self._env = env

        def end(_: Env, done: TurnDone) -> None:
            self._done = done

        self.agent.on("turn", begin).on("done", end)
        for name in TOLD:
            self._forward(name)

    def _forward(self, name: str) -> None:
        def tell(_: Env, payload: object) -> None:
            self.parent.emit("task", TaskTold(self.number, name, payload))

        self.agent.on(name, tell)

    async def _run(self, prompt: str) -> TaskEnded:
        problem = ""
        try:
            await self.agent.start(prompt, metadata={"session_id": self.session_id})
        except TreadleError as error:
            problem = error.message
        except Exception:
            logger.exception("a task failed in a way nobody foresaw")
            problem = "it failed inside the daemon; the daemon's log says how"
        finally:
            stopped = await self.tools.close()
            problem = (await asyncio.to_thread(self._close_thread)) or problem
        done = self._done
        return TaskEnded(
            number=self.number,
            agent=self.name,
            stop_reason=done.stop_reason if done else "error",
            text=done.text if done else "",
            steps=done.steps if done else 0,
            problem=problem,
            stopped=tuple(job.command for job in stopped),
        )

    def _close_thread(self) -> str:
        """Give the thread back; return what of it could not be kept, in words."""
        try:
            self.thread.close()
        except StorageDegraded as error:
            logger.warning("a task's thread could not be kept whole: %s", error.message)
            return error.message
        return ""


def _end_at_last(work: asyncio.Task[TaskEnded]) -> None:
    _left_behind.discard(work)
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.warning("a task that had been left behind ended with %r", error)
