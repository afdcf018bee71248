"""What a session does now, told to its watchers whenever that changes.

Owns when a state is news. Refuses to know what makes a session do anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.runtime.compacting import Compactions
from treadle.runtime.holding import Holding
from treadle.runtime.outbox import Outbox, State, StateChanged, Storage
from treadle.runtime.respondent import Respondent
from treadle.runtime.turn_queue import TurnQueue


@dataclass(frozen=True, slots=True)
class Present:
    """A session as it is at one moment.

    Args:
        state: what it does.
        turn: the number of the turn that runs, if one does.
        queued: how many prompts wait.
        storage: whether all that was said is kept.
        is_held: its thread is in memory.
        has_jobs: a command of its runs in the background.
    """

    state: State
    turn: int | None
    queued: int
    storage: Storage
    is_held: bool
    has_jobs: bool


class Standing:
    """The state of one session, as it is and as it was last told.

    Args:
        outbox: where changes are told.
        held: what the session holds.
        turns: those that run or wait.
        compactions: the one that somebody asked for and that runs.
        respondent: whom the running turn may wait for.
    """

    def __init__(
        self,
        outbox: Outbox,
        held: Holding,
        turns: TurnQueue,
        compactions: Compactions,
        respondent: Respondent,
    ) -> None:
        self._outbox = outbox
        self._held = held
        self._turns = turns
        self._compactions = compactions
        self._respondent = respondent
        self._told = self.now

    @property
    def state(self) -> State:
        """What the session does now."""
        if self._turns.running is not None:
            return "waiting" if self._respondent.is_waited_for else "running"
        if self._held.terms is None:
            return "closed"
        return "idle" if self._compactions.running is None else "running"

    @property
    def now(self) -> StateChanged:
        """What the session does now, as its watchers are told."""
        waiting = len(self._turns) - (self._turns.running is not None)
        queued = 0 if self.state == "closed" else waiting
        return StateChanged(self.state, queued, self._held.storage)

    @property
    def at_present(self) -> Present:
        """What the session does and holds now."""
        now, opened, running = self.now, self._held.opened, self._turns.running
        return Present(
            now.state,
            running.number if running else None,
            now.queued,
            now.storage,
            is_held=opened is not None,
            has_jobs=opened is not None and opened.is_busy,
        )

    def announce(self) -> None:
        """Tell the watchers what the session does, if that has changed."""
        now = self.now
        if now != self._told:
            self._told = now
            running = self._turns.running
            self._outbox.emit(now, running.number if running else None)

    def announce_storage(self) -> None:
        """Tell them only if its thread can be written no longer, or again.

        A session that opens for a turn is idle for a moment, which is no news.
        """
        if self._held.storage != self._told.storage:
            self.announce()
