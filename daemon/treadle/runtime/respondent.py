"""Who answers for the person in a session, while a turn of it runs.

Owns whom that is, that the session waits meanwhile, how long, and what was allowed as long as
the session is open. Refuses to know what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.permissions.approvals import Granted
from treadle.runtime.audience import Audience
from treadle.runtime.client import Client
from treadle.runtime.pair import Pair
from treadle.runtime.prompt import Prompt
from treadle.runtime.slot import Slot
from treadle.runtime.turn_in_flight import TurnInFlight

T = TypeVar("T")

# Time for a person who is at the machine to come back to it; whoever is away for longer finds the
# turn ended, and nothing done that was not allowed.
APPROVAL_SECONDS = 600.0


class Respondent:
    """Whom the running turn of one session can ask.

    Args:
        pair: whose session.
        audience: everybody who watches.
        on_change: called when the session begins to wait for an answer, and when it waits no more.

    Attributes:
        granted: what was allowed as long as the session is open.

    Contract: `on_change` must neither raise nor block.
    """

    def __init__(self, pair: Pair, audience: Audience, on_change: Callable[[], None]) -> None:
        self.pair = pair
        self._audience = audience
        self.granted = Granted()
        self._on_change = on_change
        self._open = 0  # questions that nobody has answered yet
        self._turn: TurnInFlight | None = None
        self._prompt: Prompt | None = None
        self._slot: Slot | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether a question is open."""
        return self._open > 0

    @property
    def client(self) -> Client | None:
        """Whoever asked for the turn, and everybody who watches; nobody who joined it only."""
        if self._turn is None or self._turn.has_ended:
            return None
        prompt = self._turn.askers.first or self._prompt
        return self._audience.with_prompter(prompt.client if prompt else None)

    @property
    def turn(self) -> int:
        """The number of the turn that asks."""
        return (self._turn.number if self._turn else None) or 0

    def attend(self, turn: TurnInFlight, prompt: Prompt, slot: Slot) -> None:
        """Answer for whoever asked for this turn.

        Args:
            turn: it.
            prompt: what began it; a turn that was steered into being has no other asker.
            slot: its place among the turns that run, which it needs not while it waits.
        """
        self._turn, self._prompt, self._slot = turn, prompt, slot

    def dismiss(self, turn: TurnInFlight) -> None:
        """Answer for that turn no more."""
        if self._turn is turn:
            self._turn = self._prompt = self._slot = None

    def forget(self) -> None:
        """Allow nothing of what was allowed so far: the session is closed."""
        self.granted = Granted()

    async def wait_for(self, answer: Awaitable[T]) -> T:
        """Let the session wait for an answer, within the bound.

        Raises:
            TimeoutError: it did not come in time.
        """
        slot, is_stopped = self._slot, False
        self._open += 1
        if self._open == 1:
            if slot is not None:
                slot.give_back()
            self._on_change()
        try:
            async with asyncio.timeout(APPROVAL_SECONDS):
                return await answer
        except asyncio.CancelledError:
            is_stopped = True
            raise
        finally:
            self._open -= 1
            if self._open == 0:
                self._on_change()
                # A turn that is stopped needs its place no more, and must not wait for it.
                if slot is not None and not is_stopped:
                    await slot.take()
