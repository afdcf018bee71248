"""A session: the one live object of a pair, with its lane, its turn and its events.

Every change to it happens in its lane; cancel, close and read never wait behind a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from treadle.agents.options import SessionOptions
from treadle.errors import Busy, InternalError, OptionsDiffer, TreadleError
from treadle.runtime.lane import Lane
from treadle.runtime.opened import Opened, open_session
from treadle.runtime.outbox import Outbox, Pair, State, StateChanged, TurnEnded
from treadle.runtime.services import Services
from treadle.runtime.turn_in_flight import StopCause, TurnInFlight
from treadle.thread.message import Message, Usage
from treadle.thread.thread import Thread
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone

logger = logging.getLogger(__name__)

# A close waits this long for its place in the lane once the turn was stopped: for a thread that
# is just being opened, and for the last flush.
CLOSE_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a client asks for with one prompt."""

    messages: Sequence[Message]
    options: SessionOptions
    default_cwd: Path | None = None
    max_turns: int | None = None
    when_busy: Literal["queue", "reject"] = "queue"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A prompt's one outcome; `turn` and `messages` are absent when its turn never began."""

    done: TurnDone
    turn: int | None = None
    messages: tuple[int, int] | None = None


class Session:
    """One pair's session.

    Args:
        pair: its address.
        services: what it shares with the daemon's other sessions.
        last_seq: the last number its events have used in this daemon's life.
        on_rest: called whenever it is closed and has nothing to do.
    """

    def __init__(
        self, pair: Pair, services: Services, last_seq: int, on_rest: Callable[[Session], None]
    ) -> None:
        self.pair = pair
        self.outbox = Outbox(pair, last_seq)
        self._services = services
        self._on_rest = on_rest
        self._lane = Lane(self._rest)
        self._opened: Opened | None = None
        self._turns: list[TurnInFlight] = []  # the running one first, then those that wait
        self._running: TurnInFlight | None = None
        self._announced = StateChanged("closed", 0)

    @property
    def state(self) -> State:
        """What the session does now."""
        if self._running is not None:
            return "running"
        return "closed" if self._opened is None else "idle"

    @property
    def thread(self) -> Thread | None:
        """The open thread; to be read, never changed."""
        return self._opened.thread if self._opened else None

    async def resume(
        self, options: SessionOptions, default_cwd: Path | None = None
    ) -> tuple[Thread, bool]:
        """Open the session, or find it open.

        Returns:
            Its thread, to be read, and whether this call made it.

        Raises:
            RequestFailed: it cannot be opened, or is open with other options.
        """

        async def open_now() -> tuple[Thread, bool]:
            was_open = self._opened is not None
            thread = (await self._ensure_open(options, default_cwd)).thread
            return thread, thread.created and not was_open

        return await self._lane.submit(open_now).outcome

    async def prompt(self, prompt: Prompt) -> Outcome:
        """Run one turn when its time comes, opening the session first if need be.

        Cancelling the caller stops the turn, and is passed on once it has ended.

        Raises:
            Busy: something runs and the prompt does not want to wait.
            TreadleError: the turn ended with an error.
        """
        if prompt.when_busy == "reject" and self._turns:
            raise Busy("the session runs a turn; wait for it, cancel it, or queue behind it")
        turn = TurnInFlight()
        self._turns.append(turn)
        job = self._lane.submit(lambda: self._run_prompt(prompt, turn))
        self._announce()
        try:
            return await job.outcome
        except asyncio.CancelledError:
            if self._lane.withdraw(job):
                self._turns.remove(turn)
                self._announce()
            else:
                await turn.stop("cancelled")
            raise

    async def cancel(self, number: int | None = None) -> int | None:
        """Stop the running turn, or only the turn with this number.

        Returns:
            The number of the turn that was stopped, 0 for one that had none yet;
            None when there was nothing to stop or it would not end.
        """
        turn = self._turns[0] if self._turns else None
        if turn is None or (number is not None and number != turn.number):
            return None
        ended = await turn.stop("cancelled")
        return (turn.number or 0) if ended else None

    async def close(self, cause: StopCause = "closed") -> bool:
        """Stop the running turn, end the prompts that wait, give back what is held.

        Returns:
            Whether the session was open.

        Raises:
            Busy: a turn would not end within the bound; it goes on being stopped.
        """
        job = self._lane.submit(self._close)
        for turn in self._turns:
            turn.cause = turn.cause or cause
        if self._turns:
            await self._turns[0].stop(cause)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                return await job.outcome
        except TimeoutError:
            raise Busy("a turn does not end; it is still being stopped") from None

    async def _ensure_open(self, options: SessionOptions, default_cwd: Path | None) -> Opened:
        if self._opened is None:
            self._opened = await asyncio.to_thread(
                open_session, self.pair, self._services, options, default_cwd
            )
        elif difference := options.difference(self._opened.options):
            field, is_, wanted = difference
            raise OptionsDiffer(
                f"the session is open with {field} {is_!r}; close it to change that",
                field=field,
                is_=is_,
                wanted=wanted,
            )
        return self._opened

    async def _run_prompt(self, prompt: Prompt, turn: TurnInFlight) -> Outcome:
        """Run a prompt's turn in the lane; whatever happens, the turn ends exactly once."""
        try:
            if turn.cause is not None:
                return _never_began(turn)
            opened = await self._ensure_open(prompt.options, prompt.default_cwd)
            agent = await opened.agent(prompt.max_turns)
            return await self._run_turn(agent, prompt, turn, opened.thread)
        finally:
            self._turns.remove(turn)
            self._running = None
            turn.end()
            self._announce()

    async def _run_turn(
        self, agent: Agent, prompt: Prompt, turn: TurnInFlight, thread: Thread
    ) -> Outcome:
        ended: list[TurnDone] = []
        agent.on("done", lambda _env, done: ended.append(done))
        self._forward(agent, turn)
        first = len(thread.messages)
        error = await self._settle(turn, agent, prompt)
        if not ended:
            if error is not None:
                raise error
            return _never_began(turn)
        self.outbox.emit(TurnEnded(ended[0], error), turn.number)
        if error is not None:
            raise error
        messages = (min(first, len(thread.messages) - 1), len(thread.messages) - 1)
        return Outcome(ended[0], turn.number, messages)

    async def _settle(
        self, turn: TurnInFlight, agent: Agent, prompt: Prompt
    ) -> TreadleError | None:
        """Run the turn to its end; return the error that its prompt is answered with."""
        try:
            await turn.run(self._take_turn(turn, agent, prompt))
        except asyncio.CancelledError:
            return None
        except TreadleError as error:
            return error
        except BaseException:
            logger.exception("a turn failed in a way nobody foresaw")
            return InternalError("the turn failed inside the daemon; its log says how")
        return None

    async def _take_turn(self, turn: TurnInFlight, agent: Agent, prompt: Prompt) -> Env:
        async with self._services.turn_slots:
            self._running = turn
            self._announce()
            return await agent.start(prompt.messages, metadata={"session_id": "/".join(self.pair)})

    def _forward(self, agent: Agent, turn: TurnInFlight) -> None:
        """Make the agent's events the session's."""

        def begin(env: Env, _: object) -> None:
            turn.env = env

        def forward(env: Env, payload: object) -> None:
            turn.number = env.metadata.get("turn")
            self.outbox.emit(payload, turn.number)  # type: ignore[arg-type]  # by the names below

        agent.on("turn", begin)
        for name in ("delta", "tool_call", "tool_result"):
            agent.on(name, forward)

    async def _close(self) -> bool:
        opened, self._opened = self._opened, None
        if opened is None:
            return False
        await asyncio.to_thread(opened.close)
        self._announce()
        return True

    def _announce(self) -> None:
        """Tell the watchers what the session does, if that has changed."""
        now = StateChanged(self.state, max(0, len(self._turns) - 1))
        if now != self._announced:
            self._announced = now
            self.outbox.emit(now, self._running.number if self._running else None)

    def _rest(self) -> None:
        if self._opened is None:
            self._on_rest(self)


def _never_began(turn: TurnInFlight) -> Outcome:
    return Outcome(TurnDone(turn.cause or "cancelled", "", Usage(), 0))
