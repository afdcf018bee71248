"""The turns of one session, the one that runs first: which of them is meant by what is asked.

Refuses to know how a turn runs, and who is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from treadle.agents.options import SessionOptions
from treadle.errors import NotRunning, WrongTurn
from treadle.runtime.admission import Admission, Load
from treadle.runtime.askers import Asker
from treadle.runtime.lane import Job
from treadle.runtime.prompt import Prompt
from treadle.runtime.turn_in_flight import StopCause, TurnInFlight


class _Asked(NamedTuple):
    """What a turn was asked by, its place in the lane, and what it weighs."""

    prompt: Prompt
    job: Job[None]
    load: Load


class TurnQueue:
    """Turns in order of arrival; one that has ended is taken out by whoever ended it.

    Args:
        admission: bounds on what waits.

    Attributes:
        running: the one whose prompt is in the thread by now.
    """

    def __init__(self, admission: Admission) -> None:
        self.running: TurnInFlight | None = None
        self._admission = admission
        self._turns: dict[TurnInFlight, _Asked] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, turn: TurnInFlight) -> bool:
        return turn in self._turns

    @property
    def first(self) -> TurnInFlight | None:
        """The turn that runs or is about to."""
        return next(iter(self._turns), None)

    @property
    def open(self) -> TurnInFlight | None:
        """The turn that runs or is about to, as long as it takes what is said to it."""
        turn = self.first
        return None if turn is None or turn.inbox.is_sealed else turn

    @property
    def goes_on(self) -> bool:
        """Whether a turn runs that nobody has told to stop."""
        return self.running is not None and self.running.cause is None

    @property
    def opening(self) -> TurnInFlight | None:
        """The turn that is about to run, or turns out to have nothing to run."""
        turn = self.first
        return None if turn is None or turn.cause or turn.thread else turn

    def add(self, turn: TurnInFlight, prompt: Prompt, submit: Callable[[], Job[None]]) -> None:
        """Put a turn at the end, and give it a place in the lane.

        Raises:
            Overloaded: too much waits already; nothing was submitted.
        """
        load = self._admission.take(prompt.messages, len(self._turns))
        self._turns[turn] = _Asked(prompt, submit(), load)

    def remove(self, turn: TurnInFlight) -> None:
        """Take a turn out."""
        self._admission.give_back(self._turns.pop(turn).load)
        if self.running is turn:
            self.running = None

    def job(self, turn: TurnInFlight) -> Job[None]:
        """Return a turn's place in the lane."""
        return self._turns[turn].job

    def options(self, turn: TurnInFlight) -> SessionOptions:
        """Return the options that a turn was asked with."""
        return self._turns[turn].prompt.options

    def find(self, prompt: Prompt) -> tuple[TurnInFlight, Asker] | None:
        """Return the turn that answers this very prompt, and its place among those who asked."""
        for turn in self._turns:
            asker = turn.askers.find(prompt)
            if asker is not None:
                return turn, asker
        return None

    def mark(self, cause: StopCause) -> None:
        """Have every turn end without beginning, when its time comes."""
        for turn in self._turns:
            turn.mark(cause)

    def require_running(self, expected: int) -> None:
        """Refuse text that is for another turn than the one that runs.

        Raises:
            NotRunning: none runs that takes it.
            WrongTurn: another one does.
        """
        turn = self.open
        if turn is None or turn.number is None:
            raise NotRunning(f"turn {expected} does not run; without expectedTurn text begins one")
        if turn.number != expected:
            raise WrongTurn(f"turn {turn.number} runs, not turn {expected}", active=turn.number)
