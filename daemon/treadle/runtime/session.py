"""A session: the one live object of a pair, with its lane, its turn and its events.

Every change to it happens in its lane; cancel, close and read never wait behind a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from treadle.agents.options import SessionOptions
from treadle.errors import (
    Busy,
    InternalError,
    InvalidParams,
    NotRunning,
    TreadleError,
)
from treadle.runtime.askers import Asker, tell_whole
from treadle.runtime.holding import Holding
from treadle.runtime.keys import Keys, digest_of, told_before
from treadle.runtime.lane import Job, Lane
from treadle.runtime.opened import Terms
from treadle.runtime.outbox import (
    Outbox,
    Pair,
    State,
    StateChanged,
    TurnEnded,
    TurnPayload,
)
from treadle.runtime.prompt import Outcome, Prompt, Steered
from treadle.runtime.services import Services
from treadle.runtime.shown import shown
from treadle.runtime.turn_in_flight import StopCause, TurnInFlight, TurnStopped
from treadle.runtime.turn_queue import TurnQueue
from treadle.thread.message import Usage
from treadle.thread.thread import Thread
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import StepStarted, TurnDone

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A close waits this long for its place in the lane once the turn was stopped: for a thread that
# is just being opened, and for the last flush.
CLOSE_SECONDS = 1.5

# A deletion has the files beside a thread to delete too, and there may be many.
DELETE_SECONDS = 10.0


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
        self._lane = Lane(on_told=self._announce, on_empty=self._rest)
        self._held = Holding(pair, services, self._announce)
        self._turns = TurnQueue()
        self._keys = Keys()
        self._arriving = 0  # prompts that are looked up before they have a place in the lane
        self._running: TurnInFlight | None = None
        self._idling: asyncio.TimerHandle | None = None
        self._announced = self._state_now()

    @property
    def state(self) -> State:
        """What the session does now."""
        if self._running is not None:
            return "running"
        return "closed" if self._held.terms is None else "idle"

    @property
    def thread(self) -> Thread | None:
        """The thread that is held; to be read, never changed.

        None while a worker thread changes it: its file says all of it meanwhile.
        """
        return self._held.thread

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
            was_open = self._held.terms is not None
            thread = (await self._held.open(options, default_cwd)).thread
            return thread, thread.created and not was_open

        return await self._outcome(self._submit(open_now))

    async def begin_as(self, copy: Callable[[], None], default_cwd: Path | None = None) -> Thread:
        """Open the session with a thread that is a copy of another one.

        Args:
            copy: makes it, in a worker thread; refuses where there is a thread already.
            default_cwd: the client's own folder.

        Returns:
            Its thread, to be read.

        Raises:
            ThreadExists: the session is open, so there is a thread.
            RequestFailed: it cannot be copied, or not be opened.
        """
        return await self._outcome(self._submit(lambda: self._held.begin_as(copy, default_cwd)))

    async def rewind(self, to: int, default_cwd: Path | None = None) -> int:
        """End the conversation at an ordinal, behind the turns that were asked for before.

        Args:
            to: the last ordinal that it keeps; -1 empties it.
            default_cwd: the client's own folder, where the session is to be opened.

        Returns:
            How many messages it holds.

        Raises:
            NoSuchOrdinal: it does not hold that message.
            RequestFailed: the session cannot be opened.
        """
        return await self._outcome(self._submit(lambda: self._held.rewind(to, default_cwd)))

    async def prompt(self, prompt: Prompt) -> Outcome:
        """Run one turn when its time comes, opening the session first if need be.

        Cancelling the caller stops the prompt, and is passed on once it has ended.

        Raises:
            InvalidParams: another prompt was asked under its key.
            Busy: something runs and the prompt does not want to wait.
            OptionsDiffer: it is to enter a turn of a session that is open with other options.
            TreadleError: the turn ended with an error.
        """
        running = self._running_under_key(prompt)
        if running is None and prompt.key is not None and self._turns:
            outcome = await self._answered_before(prompt, prompt.key)
            if outcome is not None:
                tell_whole(prompt, outcome)
                return outcome
            running = self._running_under_key(prompt)
        turn = running or self._entered(prompt) or self._begin(prompt)
        asker = turn.askers.join(prompt, is_repeat=running is not None)
        self._keys.begin(prompt, turn)
        try:
            return await asker.outcome
        except asyncio.CancelledError:
            await self._stop(turn, asker)
            raise

    async def steer(self, said: Prompt, expected_turn: int | None = None) -> Steered:
        """Say something into the turn that runs or is about to; where none is, begin one.

        What entered a turn is on disk, whatever then becomes of the turn: where that never
        begins, it is in the thread all the same, unanswered.

        Args:
            said: what is said, and the terms of a turn that it begins.
            expected_turn: the only turn that it may enter; then it begins none.

        Contract: suspends only while the thread is being opened.

        Raises:
            NotRunning: the expected turn has ended or not begun; or the one that it entered was
                stopped before there was a thread to keep it in.
            WrongTurn: another turn runs.
            TreadleError: the thread of the turn that it entered cannot be opened.
        """
        if expected_turn is not None:
            self._require_running(expected_turn)
        turn = self._turns.open
        if turn is None:
            self._begin(said)
            return Steered(injected=False)
        if await turn.promise(said.messages) is None:
            raise _not_said(turn)
        return Steered(injected=True, turn=turn.number)

    async def stop_prompt(self, prompt: Prompt) -> bool:
        """Stop this very prompt, whether it runs or waits; its outcome is `cancelled`.

        One that entered a turn ends that turn.

        Returns:
            Whether it was there and has ended.
        """
        found = self._turns.find(prompt)
        if found is None:
            self._leave_if_unused()
            return False
        return await self._stop(*found)

    async def cancel(self, number: int | None = None) -> int | None:
        """Stop the running turn, or only the turn with this number.

        Returns:
            The number of the turn that was stopped, 0 for one that had none yet;
            None when there was nothing to stop or it has not ended yet.
        """
        turn = self._turns.first
        if turn is None or (number is not None and number != turn.number):
            return None
        ended = await turn.stop("cancelled")
        return (turn.number or 0) if ended else None

    async def close(self, cause: StopCause = "closed") -> bool:
        """Stop the running turn, end the prompts that wait, give back what is held.

        What is asked after a close runs behind it and opens the session anew.

        Returns:
            Whether the session was open.

        Raises:
            Busy: the thread is still being opened after the bound; the close follows that.
            StorageDegraded: it is closed, and not all that was said is in its thread; the
                message says where it lies.
        """
        return await self._end_with(self._close, cause, CLOSE_SECONDS)

    async def delete(self) -> bool:
        """Close the session, then delete its thread and everything that lies beside it.

        What is asked meanwhile runs behind it and begins the thread afresh.

        Returns:
            Whether there was a thread.

        Raises:
            Busy: it is not done after the bound; it is still to be.
            ThreadLocked: another process holds the thread; this one's session is closed.
            ThreadUnreadable: there is something that is no file.
            StorageDegraded: not all of it could be deleted.
        """
        return await self._end_with(self._delete, "closed", DELETE_SECONDS)

    async def _end_with(
        self, work: Callable[[], Awaitable[bool]], cause: StopCause, seconds: float
    ) -> bool:
        """Stop every turn, then do a last piece of work.

        Raises:
            Busy: it is not done after so many seconds; it follows.
        """
        job = self._submit(work)
        self._turns.mark(cause)
        if self._turns.first is not None:
            await self._turns.first.stop(cause)
        try:
            async with asyncio.timeout(seconds):
                return await job.outcome
        except TimeoutError:
            raise Busy("the session is still being opened; it is closed right after") from None

    def _require_running(self, expected: int) -> None:
        try:
            self._turns.require_running(expected)
        except NotRunning:
            self._leave_if_unused()
            raise

    def _running_under_key(self, prompt: Prompt) -> TurnInFlight | None:
        """Return the turn that is to answer a prompt that was asked before, by its key.

        Raises:
            InvalidParams: another prompt was asked under its key.
        """
        try:
            return self._keys.find(prompt)
        except InvalidParams:
            self._leave_if_unused()
            raise

    async def _answered_before(self, prompt: Prompt, key: str) -> Outcome | None:
        """Return what a prompt's key came to, where that need not wait for the prompt's turn.

        Raises:
            InvalidParams: another prompt was asked under its key.
            ThreadUnreadable: the thread's file cannot be read.
        """
        self._arriving += 1
        try:
            outcome = await self._looked_up(prompt, key)
        except BaseException:
            self._arriving -= 1
            self._leave_if_unused()
            raise
        self._arriving -= 1
        if outcome is not None:
            self._leave_if_unused()
        return outcome

    async def _looked_up(self, prompt: Prompt, key: str) -> Outcome | None:
        """Look a key up while turns run; suspends only where that is not to be had at once."""
        if prompt.when_busy == "steer":
            # What is kept of it names the turn that it enters.
            while (turn := self._turns.open) is not None and turn.number is None:
                await turn.has_begun()
                if turn.cause in ("closed", "interrupted"):
                    return Outcome(TurnDone(turn.cause, "", Usage(), 0))
        thread = self.thread
        knows = None if thread is None else thread.knows_key(key)
        if thread is None or knows is False or (knows is None and prompt.when_busy == "queue"):
            # It is looked up when its turn comes.
            return None
        return await asyncio.to_thread(told_before, prompt, thread)

    def _entered(self, prompt: Prompt) -> TurnInFlight | None:
        """Let a prompt into the turn that runs, if it wants that and there is one.

        Raises:
            Busy: it wants nothing but a session without a turn.
            OptionsDiffer: it wants other options than those of the session.
        """
        if prompt.when_busy == "reject" and self._turns:
            raise Busy("the session runs a turn; wait for it, cancel it, or queue behind it")
        turn = self._turns.open
        if turn is None or prompt.when_busy != "steer":
            return None
        terms = self._held.terms or Terms(self._turns.options(turn), None)
        terms.require(prompt.options)
        if prompt.key is not None and turn.thread is not None:
            first, *rest = prompt.messages
            turn.inbox.put(turn.thread.accept(first, prompt.key, digest_of(prompt)))
            turn.inbox.put(*map(turn.thread.accept, rest))
        else:
            turn.inbox.put(*prompt.messages)
        return turn

    def _begin(self, prompt: Prompt) -> TurnInFlight:
        """Give a prompt a turn at the end of the lane."""
        turn = TurnInFlight()
        if prompt.key is not None:
            # As long as it may turn out that nothing is to run, nothing may enter it.
            turn.inbox.seal()
        self._turns.add(turn, prompt, self._submit(lambda: self._run_prompt(prompt, turn)))
        if len(self._turns) > 1:
            self._announce()
        return turn

    async def _stop(self, turn: TurnInFlight, asker: Asker) -> bool:
        """Stop what one prompt asked for; return whether it has ended."""
        if turn not in self._turns:
            return True
        if turn.askers.release(asker, has_begun=turn.number is not None):
            asker.settle(_never_begun())
            return True
        job = self._turns.job(turn)
        if job.has_begun:
            return await turn.stop("cancelled")
        self._lane.withdraw(job)
        self._turns.remove(turn)
        self._conclude(turn, Outcome(turn.end(None)))
        self._announce()
        return True

    def _submit(self, work: Callable[[], Awaitable[T]]) -> Job[T]:
        if self._idling is not None:
            self._idling.cancel()
        return self._lane.submit(work)

    async def _outcome(self, job: Job[T]) -> T:
        """Wait for a job; a caller that is cancelled takes back one that has not begun."""
        try:
            return await job.outcome
        except asyncio.CancelledError:
            self._lane.withdraw(job)
            raise

    async def _run_prompt(self, prompt: Prompt, turn: TurnInFlight) -> None:
        """Run a prompt's turn in the lane; whatever happens, it ends exactly once, and is told."""
        error: TreadleError | None = None
        known: Outcome | TreadleError | None = None
        try:
            known = await self._run_turn(prompt, turn)
        except TurnStopped as stopped:
            if stopped.left_behind:
                await self._held.let_go_at_once(turn.inbox)
        except TreadleError as raised:
            error = raised
        except Exception:
            logger.exception("a turn failed in a way nobody foresaw")
            error = InternalError("the turn failed inside the daemon; its log says how")
        finally:
            self._keep_promises(turn)
            self._turns.remove(turn)
            self._running = None
            done = turn.end(error)
        if known is not None:
            turn.askers.become_repeats()
            self._conclude(turn, known)
            return
        self._tell_the_end(turn, TurnEnded(done, error))
        self._conclude(turn, error or Outcome(done, turn.number, turn.messages))

    def _conclude(self, turn: TurnInFlight, outcome: Outcome | TreadleError) -> None:
        """Give everybody who asked for a turn its outcome."""
        self._keys.end(turn.askers.wanted_keys())
        turn.askers.settle(outcome)

    def _keep_promises(self, turn: TurnInFlight) -> None:
        """Say what was promised to a turn that did not come to saying it."""
        if turn.thread is None or turn.thread is not self._held.thread:
            return
        try:
            turn.thread.say_accepted()
        except TreadleError:
            logger.exception("what was said to a turn that never began could not be kept")

    async def _run_turn(self, prompt: Prompt, turn: TurnInFlight) -> Outcome | TreadleError | None:
        """Take a prompt's turn.

        Returns:
            What its key came to before, or that another prompt has it; None where it has run.

        Raises:
            TurnStopped: it was stopped, maybe before it began.
            TreadleError: it cannot begin, or ended with an error.
        """
        if turn.cause is not None:
            raise TurnStopped
        opened = await self._held.open(prompt.options, prompt.default_cwd)
        if opened.thread.storage != self._announced.storage:
            self._announce()
        metadata = {"session_id": "/".join(self.pair)}
        if prompt.key is not None:
            try:
                known = await asyncio.to_thread(told_before, prompt, opened.thread)
            except InvalidParams as used:
                return used
            if known is not None:
                return known
            metadata |= {"key": prompt.key, "asked": digest_of(prompt)}
            if turn.cause is None:
                turn.inbox.open()
        turn.open(opened.thread)
        agent = await opened.agent(prompt.max_turns, turn.inbox)
        slots = await self._services.turn_slots()
        if slots.locked():
            self._announce()
        await turn.run(slots.acquire())
        try:
            turn.follow(agent, opened.thread)
            self._listen(agent, turn)
            await turn.run(agent.start(prompt.messages, metadata=metadata))
        finally:
            slots.release()
        return None

    def _listen(self, agent: Agent, turn: TurnInFlight) -> None:
        """Make the agent's events the session's."""

        def step(_env: Env, started: StepStarted) -> None:
            if turn.has_ended:
                return
            # The first sign of a turn whose prompt is in the thread, which has numbered it.
            self._running = turn
            self._announce()
            turn.askers.tell(started)

        def forward(_env: Env, payload: TurnPayload) -> None:
            if not turn.has_ended:
                self._emit(turn, payload)

        agent.on("step", step)
        for name in ("delta", "tool_call", "tool_result", "retrying"):
            agent.on(name, forward)

    def _emit(self, turn: TurnInFlight, payload: TurnPayload) -> None:
        self.outbox.emit(payload, turn.number)
        turn.askers.tell(payload)

    def _tell_the_end(self, turn: TurnInFlight, ended: TurnEnded) -> None:
        reason = getattr(ended.error, "reason", "")
        logger.info(
            "turn %s of %s: %s after %d steps",
            turn.number or "without a number",
            shown(self.pair),
            f"{ended.done.stop_reason} ({reason})" if reason else ended.done.stop_reason,
            ended.done.steps,
        )
        self._emit(turn, ended)
        self._announce()

    async def _close(self) -> bool:
        try:
            return await self._held.close()
        finally:
            self._announce()

    async def _delete(self) -> bool:
        try:
            return await self._held.delete()
        finally:
            self._announce()

    def _state_now(self) -> StateChanged:
        waiting = len(self._turns) - (self._running is not None)
        queued = 0 if self.state == "closed" else waiting
        return StateChanged(self.state, queued, self._held.storage)

    def _announce(self) -> None:
        """Tell the watchers what the session does, if that has changed."""
        now = self._state_now()
        if now != self._announced:
            self._announced = now
            self.outbox.emit(now, self._running.number if self._running else None)

    def _leave_if_unused(self) -> None:
        """Be forgotten where a call came to nothing and nothing else is there."""
        if self._lane.is_idle and self._held.opened is None:
            self._rest()

    def _rest(self) -> None:
        """Be forgotten once closed; what stays open unused for long is held no longer.

        Nobody sees that: its terms stay, and the next prompt gets the rest from the file.
        """
        if self._held.opened is not None:
            self._idling = asyncio.get_running_loop().call_later(
                self._held.opened.idle_seconds, lambda: self._lane.submit(self._held.evict)
            )
        elif self._held.terms is None and not self._arriving:
            self._on_rest(self)


def _not_said(turn: TurnInFlight) -> TreadleError:
    """Say why what entered a turn was not said; returned, for the caller to raise."""
    error = turn.done.error if turn.done else None
    if isinstance(error, TreadleError):
        return error
    return NotRunning("the turn was stopped before it began, so this was not said; say it again")


def _never_begun() -> Outcome:
    """Return the outcome of a prompt that was stopped before it had a turn."""
    return Outcome(TurnDone("cancelled", "", Usage(), 0))
