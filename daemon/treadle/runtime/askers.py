"""Those who asked for one turn: each hears of it and gets its outcome, exactly once.

Refuses to know how a turn runs and is stopped.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from treadle.errors import TreadleError
from treadle.models.completion import Delta
from treadle.runtime.outbox import TurnEnded, TurnPayload
from treadle.runtime.prompt import Outcome, Prompt
from treadle.turn.events import StepStarted

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Asker:
    """A prompt and its outcome to be; `is_repeat` says that another of its key asked first."""

    prompt: Prompt
    outcome: asyncio.Future[Outcome]
    is_repeat: bool = False

    def settle(self, outcome: Outcome | TreadleError) -> None:
        """Give the prompt its outcome, unless whoever wanted it is gone."""
        if self.outcome.done():
            return
        if isinstance(outcome, Outcome):
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(outcome)
            # Whoever wanted it may be cancelled before it looks; that is no error of ours.
            self.outcome.exception()


class Askers:
    """The askers of one turn, in order of arrival."""

    def __init__(self) -> None:
        self._askers: list[Asker] = []

    @property
    def first(self) -> Prompt | None:
        """The prompt whose turn it is; None where it was begun without waiting for an outcome."""
        return self._askers[0].prompt if self._askers else None

    def join(self, prompt: Prompt, *, is_repeat: bool = False) -> Asker:
        """Add a prompt that is answered by this turn."""
        asker = Asker(prompt, asyncio.get_running_loop().create_future(), is_repeat)
        self._askers.append(asker)
        return asker

    def find(self, prompt: Prompt) -> Asker | None:
        """Return the asker of this very prompt."""
        return next((one for one in self._askers if one.prompt is prompt), None)

    def wanted_keys(self) -> set[str]:
        """Return the keys that this turn's outcome is for."""
        return {one.prompt.key for one in self._askers if one.prompt.key is not None}

    def release(self, asker: Asker, *, has_begun: bool) -> bool:
        """Let an asker go without the turn, where the turn is wanted all the same.

        Args:
            asker: one of these.
            has_begun: the turn has; it then ends with whom it began for.

        Returns:
            Whether it was let go: it only repeats another, or one that repeats it takes its
            place. Else the turn ends with it.
        """
        if not asker.is_repeat:
            heir = None if has_begun else self._heir(asker)
            if heir is None:
                return False
            heir.is_repeat = False
        self._askers.remove(asker)
        return True

    def become_repeats(self) -> None:
        """Note that an earlier turn answers all of them."""
        for asker in self._askers:
            asker.is_repeat = True

    def tell(self, payload: StepStarted | TurnPayload) -> None:
        """Tell those whose own turn this is."""
        for asker in tuple(self._askers):
            if not asker.is_repeat:
                _tell(asker.prompt, payload)

    def settle(self, outcome: Outcome | TreadleError) -> None:
        """Give everybody the turn's outcome."""
        for asker in self._askers:
            if asker.is_repeat and isinstance(outcome, Outcome):
                tell_whole(asker.prompt, outcome)
            asker.settle(outcome)

    def _heir(self, asker: Asker) -> Asker | None:
        key = asker.prompt.key
        return next((one for one in self._askers if one.is_repeat and one.prompt.key == key), None)


def tell_whole(prompt: Prompt, outcome: Outcome) -> None:
    """Tell a prompt that another one answered, in one piece, what it did not hear."""
    if outcome.done.text:
        _tell(prompt, Delta("text", outcome.done.text))
    _tell(prompt, TurnEnded(outcome.done, None))


def _tell(prompt: Prompt, payload: StepStarted | TurnPayload) -> None:
    if prompt.on_event is None:
        return
    try:
        prompt.on_event(payload)
    except Exception:
        logger.exception("a prompt's listener raised")
