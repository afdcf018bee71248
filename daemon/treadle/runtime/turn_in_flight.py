"""One prompt's turn: how it is stopped, whatever it is doing, and how it has ended.

Refuses to know lanes, watchers and what else a session holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from treadle.errors import NotRunning, TreadleError
from treadle.runtime.askers import Askers
from treadle.thread.message import Message, Usage
from treadle.thread.records import StopReason
from treadle.thread.thread import Thread
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone
from treadle.turn.outcome import turn_done
from treadle.turn.steering import Inbox

logger = logging.getLogger(__name__)

T = TypeVar("T")

StopCause: TypeAlias = Literal["cancelled", "closed", "interrupted"]

# A turn that swallowed one cancel is told again. Not sooner: the layer of the tools gives its
# tools two seconds, and a second cancel in the middle of that would tear it.
TELL_AGAIN_SECONDS = 2.5

# A turn that is still there after this is left behind: its session goes on without it.
LEAVE_BEHIND_SECONDS = 3.0

# A stop is answered after this long at the latest. Only a thread that cannot be opened, on a
# disk that does not answer, is still there then.
STOP_SECONDS = 3.5

# Tasks that would not end; the loop itself keeps no task alive.
_left_behind: set[asyncio.Task[Any]] = set()


class TurnStopped(Exception):
    """The turn was stopped, maybe before it began; `left_behind` says that it still runs."""

    def __init__(self, *, left_behind: bool = False) -> None:
        super().__init__()
        self.left_behind = left_behind


class TurnInFlight:
    """A prompt's turn from the moment the prompt is accepted.

    It may be stopped at any time: while it waits, before its model is called, while it runs,
    twice, or late.

    Attributes:
        cause: why it was told to stop; it never begins if that came first.
        env: the env of the running turn.
        number: the turn's number, once its thread has given it one.
        done: how it ended, once it has.
        messages: the ordinals of its first and last message, once it has ended.
        thread: where what is said to it is kept; None while that is being opened.
        inbox: what is said to it while it runs; sealed when it is told to stop.
        is_promised: whoever said what it begins with was told, or waits to be told, that this is
            kept, whatever becomes of the turn.
        askers: the prompts that it answers.
    """

    def __init__(self) -> None:
        self.cause: StopCause | None = None
        self.env: Env | None = None
        self.number: int | None = None
        self.done: TurnDone | None = None
        self.messages: tuple[int, int] | None = None
        self.thread: Thread | None = None
        self.inbox = Inbox()
        self.is_promised = False
        self.askers = Askers()
        self._task: asyncio.Task[Any] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._leave: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._has_thread = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._promised: list[Message] = []

    @property
    def has_ended(self) -> bool:
        """Whether its outcome is known."""
        return self._ended.is_set()

    def enter(self, messages: Sequence[Message], key: str = "", asked: str = "") -> None:
        """Let a prompt's messages into the turn, which takes them; with a key, keep them at once.

        Args:
            messages: what it says.
            key: under which it runs once.
            asked: a digest of it.
        """
        if key and self.thread is not None:
            first, *rest = messages
            messages = [self.thread.accept(first, key, asked), *map(self.thread.accept, rest)]
        self.inbox.put(*messages)

    async def promise(self, messages: Sequence[Message]) -> None:
        """Let messages into the turn, which takes them, and keep them: a kill loses none.

        Contract: all is done before this suspends, unless the thread is still being opened.

        Raises:
            NotRunning: the turn was stopped before it had a thread; nothing of them was said.
            TreadleError: the thread cannot be opened.
        """
        if self.thread is not None:
            self.inbox.put(*map(self.thread.accept, messages))
            return
        self.inbox.put(*messages)
        self._promised += messages
        await self.has_kept()

    async def has_kept(self) -> None:
        """Wait until what was promised is kept.

        Raises:
            NotRunning: the turn was stopped before it had a thread; nothing of that was said.
            TreadleError: the thread cannot be opened.
        """
        await self.has_opened()
        if self.thread is None:
            raise self._not_said()

    async def has_opened(self) -> None:
        """Wait until the turn has a thread, or has ended."""
        await self._has_thread.wait()

    async def has_begun(self) -> None:
        """Wait until the turn has a number, or has ended."""
        await self._has_begun.wait()

    def open(self, thread: Thread, said: Sequence[Message]) -> Sequence[Message]:
        """Give it the thread in which what was promised is kept from now on.

        Args:
            thread: the session's.
            said: what the turn begins with.

        Returns:
            What it begins with, as it is kept.

        Raises:
            ConfigurationError: what was said can never be kept.
        """
        if self.is_promised:
            said = [thread.accept(message) for message in said]
        promised = {id(message) for message in self._promised}
        self.inbox.change(lambda one: thread.accept(one) if id(one) in promised else one)
        self.thread = thread
        self._has_thread.set()
        return said

    def follow(self, agent: Agent, thread: Thread) -> None:
        """Keep what the agent tells of this turn, whose messages go to `thread`."""

        def begin(env: Env, _: object) -> None:
            self.env = env

        def step(env: Env, _: object) -> None:
            self.number = env.metadata.get("turn")
            self._has_begun.set()

        def done(env: Env, done: TurnDone) -> None:
            self.number = env.metadata.get("turn")
            self.done = done
            self.messages = None if self.number is None else thread.turn_ordinals(self.number)

        agent.on("turn", begin).on("step", step).on("done", done)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do a part of the turn in a task of its own, so that a stop reaches it and nothing else.

        Raises:
            TurnStopped: it was stopped; what it had to say about that is in the env.
        """
        if self.cause is not None:
            work.close()
            raise TurnStopped
        self._task = task = asyncio.create_task(_contained(work))
        try:
            either: set[asyncio.Future[Any]] = {task, self._leave}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The loop is ending: nothing of the turn stays without an owner.
            task.cancel()
            raise
        if not task.done():
            _leave_behind(task)
            raise TurnStopped(left_behind=True)
        if task.cancelled():
            # It may have been stopped before its first step, and would warn of that.
            work.close()
            raise TurnStopped
        return task.result()

    async def stop(self, cause: StopCause) -> bool:
        """Stop the turn and wait, within a bound, until it has ended.

        Args:
            cause: becomes the turn's stop reason, unless an earlier stop gave another.

        Returns:
            Whether it has ended.
        """
        self.mark(cause)
        if not self._timers and not self.has_ended:
            # Timers and no loop here: a caller that goes away stops nothing of it.
            loop = asyncio.get_running_loop()
            self._timers = [
                loop.call_later(TELL_AGAIN_SECONDS, self._tell),
                loop.call_later(LEAVE_BEHIND_SECONDS, self._leave.set_result, None),
            ]
            self._tell()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def mark(self, cause: StopCause) -> None:
        """Have the turn end without beginning, when its time comes; it takes nothing more."""
        self.cause = self.cause or cause
        self.inbox.seal()

    def end(self, error: TreadleError | None) -> TurnDone:
        """Say that the turn is over; what is left behind of it is not heard any more.

        Args:
            error: what its prompt is answered with, if it is one.

        Returns:
            How it ended; a turn that never began, or was left behind, did not say so itself.
        """
        for event in (self._ended, self._has_thread, self._has_begun):
            event.set()
        self.inbox.seal()
        for timer in self._timers:
            timer.cancel()
        if self.done is None and self.env is not None:
            self.done = turn_done(self.env, error or asyncio.CancelledError())
        elif self.done is None:
            stop_reason: StopReason = "error" if error else self.cause or "cancelled"
            self.done = TurnDone(stop_reason, "", Usage(), 0, error)
        return self.done

    def _not_said(self) -> TreadleError:
        """Return the error that says why what entered the turn was not said."""
        error = self.done.error if self.done else None
        if isinstance(error, TreadleError):
            return error
        return NotRunning(
            "the turn was stopped before it began, so this was not said; say it again"
        )

    def _tell(self) -> None:
        if self.env is not None:
            self.env.stop_reason = self.cause
        if self._task is not None and not self._task.done():
            self._task.cancel()


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    """Keep in the turn what would end the whole event loop, were it let out of a task."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"code of the turn raised {error!r}") from error


def _leave_behind(task: asyncio.Task[Any]) -> None:
    logger.error("a turn does not end though it was told twice; it is left behind")
    _left_behind.add(task)
    task.add_done_callback(_end_at_last)


def _end_at_last(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a turn that had been left behind ended with %r", error)
