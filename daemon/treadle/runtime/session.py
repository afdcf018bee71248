"""A session: the one live object of a pair, with its lane, its turns and its events.

Every change to it happens in its lane; cancel, close and read never wait behind a turn.
Owns which turn a prompt gets. Refuses to know how a turn runs (`turn_runner`), what a key came to
(`keys`), what is held while it is open (`holding`), and when that is let go (`rest`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from treadle.agents.options import SessionOptions
from treadle.compaction.told import Compacted
from treadle.errors import Busy
from treadle.mcp.session_servers import SessionServers
from treadle.mcp.status import ServerStatus
from treadle.runtime.askers import Asker, tell_whole
from treadle.runtime.compacting import CompactionAsked, Compactions
from treadle.runtime.holding import Closed, Holding
from treadle.runtime.keys import Keys, digest_of
from treadle.runtime.lane import Job, Lane
from treadle.runtime.opened import Terms
from treadle.runtime.outbox import Outbox, Pair, State
from treadle.runtime.prompt import Outcome, Prompt, Steered, told_to_others
from treadle.runtime.respondent import Respondent
from treadle.runtime.rest import Rest
from treadle.runtime.services import Services
from treadle.runtime.standing import Present, Standing
from treadle.runtime.turn_in_flight import StopCause, TurnInFlight
from treadle.runtime.turn_queue import TurnQueue
from treadle.runtime.turn_runner import TurnRunner
from treadle.thread.thread import Thread

T = TypeVar("T")

# A close waits this long for its place in the lane once the turn was stopped: for a thread that
# is just being opened, for MCP servers that mind nothing but the last rung of the slowest ladder
# (5 s), and for the last flush.
CLOSE_SECONDS = 6.5

# A deletion has the files beside a thread to delete too, and there may be many.
DELETE_SECONDS = 10.0


class Session:
    """One pair's session.

    Args:
        pair: its address.
        services: what it shares with the daemon's other sessions.
        outbox: where its events are told, numbered through the daemon's life.
        on_rest: called whenever it is closed and has nothing to do.
    """

    def __init__(
        self, pair: Pair, services: Services, outbox: Outbox, on_rest: Callable[[Session], None]
    ) -> None:
        self.pair = pair
        self.outbox = outbox
        self._turns = TurnQueue(services.admission)

        def announce() -> None:
            self._standing.announce()

        self._respondent = Respondent(pair, outbox.audience, announce)
        self._held = Holding(
            pair, services, self._respondent, announce, outbox.emit, outbox.has_others
        )
        self._compactions = Compactions(services, self._held, self.outbox, announce)
        self._standing = Standing(
            self.outbox, self._held, self._turns, self._compactions, self._respondent
        )
        self._keys = Keys(self._turns, self._held)
        self._runner = TurnRunner(
            services,
            self._held,
            self._turns,
            self._keys,
            self.outbox,
            self._standing,
            self._respondent,
        )
        self._rest = Rest(self._held, outbox, services.resting, lambda: on_rest(self))
        self._lane = Lane(on_told=self._standing.announce, on_empty=self._rest.begin)
        self._rest.lane = self._lane

    @property
    def state(self) -> State:
        """What the session does now."""
        return self._standing.state

    @property
    def at_present(self) -> Present:
        """What it does and holds now."""
        return self._standing.at_present

    @property
    def cwd(self) -> Path | None:
        """Where its tools work; None where that is no folder of the disk."""
        terms = self._held.terms
        return terms.cwd if terms else None

    @property
    def thread(self) -> Thread | None:
        """The thread that is held, if any; to be read, never changed."""
        return self._held.thread

    @property
    def allowed(self) -> tuple[str, ...]:
        """What a person has allowed for as long as the session is open."""
        return self._respondent.granted.texts

    @property
    def servers(self) -> SessionServers | None:
        """The MCP servers, while something is held."""
        return self._held.servers

    def mcp_statuses(self) -> list[ServerStatus]:
        """Tell how its MCP servers are doing; of none while nothing is held."""
        return self.servers.statuses() if self.servers else []

    async def resume(
        self, options: SessionOptions, default_cwd: Path | None = None
    ) -> tuple[Thread, bool]:
        """Open the session, or find it open; one that is at work is found at once.

        Returns:
            Its thread, to be read, and whether this call made it.

        Raises:
            RequestFailed: it cannot be opened, or is open with other options.
        """
        if self._turns.goes_on and (opened := self._held.opened) is not None:
            opened.terms.require(options)
            return opened.thread, False

        async def open_now() -> tuple[Thread, bool]:
            was_open = self._held.terms is not None
            thread = (await self._held.open(options, default_cwd)).thread
            return thread, thread.created and not was_open

        return await self._do(open_now)

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
        return await self._do(lambda: self._held.begin_as(copy, default_cwd))

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
        return await self._do(lambda: self._held.rewind(to, default_cwd))

    async def compact(self, asked: CompactionAsked) -> Compacted:
        """Show the model less of the conversation, behind what was asked for before.

        Cancelling the caller stops it, and is passed on once it has ended.

        Returns:
            What it came to; without an id where it was stopped before it began.

        Raises:
            RequestFailed: the session cannot be opened, or no model is there for it.
        """
        job = self._submit(lambda: self._compactions.run(asked))
        return await self._compactions.outcome(asked, job, self._lane)

    async def prompt(self, prompt: Prompt) -> Outcome:
        """Run one turn when its time comes, opening the session first if need be.

        Cancelling the caller stops the prompt, unless its client has left, and is passed on once
        it has ended.

        Raises:
            InvalidParams: another prompt was asked under its key.
            Busy: something runs and the prompt does not want to wait.
            OptionsDiffer: it is to enter a turn of a session that is open with other options.
            TreadleError: the turn ended with an error.
        """
        with self._rest.visit():
            before = await self._keys.find(prompt)
            if isinstance(before, Outcome):
                tell_whole(prompt, before)
                return before
            turn = before or self._entered(prompt) or self._begin(prompt)
            asker = turn.askers.join(prompt, is_repeat=before is not None)
            self._keys.begin(prompt, turn)
        try:
            return await asker.outcome
        except asyncio.CancelledError:
            if prompt.client is None or not prompt.client.has_left:
                await self._stop(turn, asker)
            raise

    async def steer(self, said: Prompt, expected_turn: int | None = None) -> Steered:
        """Say something into the turn that runs or is about to; where none is, begin one.

        It is on disk when this returns, whatever then becomes of the turn: where that never
        begins, it is in the thread all the same, unanswered.

        Args:
            said: what is said, and the terms of a turn that it begins.
            expected_turn: the only turn that it may enter; then it begins none.

        Contract: suspends only while the thread is being opened, the key of the first turn is
        looked up, or a turn ends.

        Raises:
            NotRunning: the expected turn has ended or not begun; or the one that it entered or
                began was stopped before there was a thread to keep it in.
            WrongTurn: another turn runs.
            TreadleError: the thread cannot be opened.
        """
        with self._rest.visit():
            if expected_turn is not None:
                self._turns.require_running(expected_turn)
            while (turn := self._turns.open) is None and (first := self._turns.opening):
                await first.has_opened()
            if turn is None:
                begun = self._begin(said)
                begun.is_promised = True
        if turn is not None:
            self.outbox.note(told_to_others(said), turn.number)
            await turn.promise(said.messages)
            return Steered(injected=True, turn=turn.number)
        await begun.has_kept()
        return Steered(injected=False)

    async def stop_prompt(self, prompt: Prompt) -> bool:
        """Stop this very prompt, whether it runs or waits; its outcome is `cancelled`.

        One that entered a turn ends that turn.

        Returns:
            Whether it was there and has ended.
        """
        with self._rest.visit():
            found = self._turns.find(prompt)
        return await self._stop(*found) if found else False

    async def cancel(self, number: int | None = None) -> int | None:
        """Stop the running turn or compaction, or only the turn with this number.

        Returns:
            The number of the turn that was stopped, 0 for one that had none yet and for a
            compaction; None when there was nothing to stop or it has not ended yet.
        """
        if self._compactions.running is not None:
            return 0 if number is None and await self._compactions.stop("cancelled") else None
        turn = self._turns.first
        if turn is None or (number is not None and number != turn.number):
            return None
        return (turn.number or 0) if await turn.stop("cancelled") else None

    async def close(self, cause: StopCause = "closed") -> Closed:
        """Stop the running turn, end the prompts that wait, give back what is held.

        What is asked after a close runs behind it and opens the session anew.

        Returns:
            Whether the session was open, and what it gave back.

        Raises:
            Busy: the thread is still being opened after the bound; the close follows that.
            StorageDegraded: it is closed, and not all that was said is in its thread; the
                message says where it lies.
        """
        return await self._end_with(self._held.close, cause, CLOSE_SECONDS)

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
        return await self._end_with(self._held.delete, "closed", DELETE_SECONDS)

    async def _end_with(
        self, work: Callable[[], Awaitable[T]], cause: StopCause, seconds: float
    ) -> T:
        """Stop every turn, then do a last piece of work.

        Raises:
            Busy: it is not done after so many seconds; it follows.
        """

        async def end() -> T:
            try:
                return await work()
            finally:
                self._standing.announce()

        job = self._submit(end)
        self._turns.mark(cause)
        self._compactions.mark(cause)
        if not await self._compactions.stop(cause) and self._turns.first is not None:
            await self._turns.first.stop(cause)
        try:
            async with asyncio.timeout(seconds):
                return await job.outcome
        except TimeoutError:
            raise Busy(
                "the session is not done with its thread yet; this is done right after"
            ) from None

    def _entered(self, prompt: Prompt) -> TurnInFlight | None:
        """Let a prompt into the turn that runs, if it wants that and there is one.

        Raises:
            Busy: it wants nothing but a session without a turn.
            OptionsDiffer: it wants other options than those of the session.
        """
        if prompt.when_busy == "reject" and (self._turns or self._compactions.running):
            raise Busy("the session is at work; wait for that, cancel it, or queue behind it")
        turn = self._turns.open
        if turn is None or prompt.when_busy != "steer":
            return None
        terms = self._held.terms or Terms(self._turns.options(turn), None)
        terms.require(prompt.options)
        turn.enter(prompt.messages, prompt.key or "", digest_of(prompt) if prompt.key else "")
        self.outbox.note(told_to_others(prompt), turn.number)
        return turn

    def _begin(self, prompt: Prompt) -> TurnInFlight:
        """Give a prompt a turn at the end of the lane.

        Raises:
            Overloaded: too much waits already.
        """
        turn = TurnInFlight()
        if prompt.key is not None:
            # As long as it may turn out that nothing is to run, nothing may enter it.
            turn.inbox.seal()
        self._turns.add(turn, prompt, lambda: self._submit(lambda: self._runner.run(prompt, turn)))
        if len(self._turns) > 1:
            self._standing.announce()
        return turn

    async def _stop(self, turn: TurnInFlight, asker: Asker) -> bool:
        """Stop what one prompt asked for; return whether it has ended."""
        if turn not in self._turns:
            return True
        if turn.askers.release(asker, has_begun=turn.number is not None):
            asker.settle(Outcome.without_turn("cancelled"))
            return True
        job = self._turns.job(turn)
        if job.has_begun:
            return await turn.stop("cancelled")
        self._lane.withdraw(job)
        self._turns.remove(turn)
        self._runner.conclude(turn, Outcome(turn.end(None)))
        self._standing.announce()
        return True

    def _submit(self, work: Callable[[], Awaitable[T]]) -> Job[T]:
        self._rest.end()
        return self._lane.submit(work)

    async def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something in the lane; a caller that is cancelled takes back what has not begun."""
        job = self._submit(work)
        try:
            return await job.outcome
        except asyncio.CancelledError:
            self._lane.withdraw(job)
            raise
