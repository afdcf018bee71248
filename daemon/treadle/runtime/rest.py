"""What becomes of a session that has nothing to do: it lets go of what it holds, or is forgotten.

Nobody sees that: its terms stay while it is open, and the next prompt gets the rest from the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treadle.runtime.holding import Holding
from treadle.runtime.lane import Lane
from treadle.runtime.outbox import Outbox
from treadle.runtime.resting import Resting


class Rest:
    """The rest of one session.

    Args:
        held: what it holds.
        outbox: where its events are told.
        resting: the sessions that rest, of the whole daemon.
        on_over: called whenever it is closed and has nothing to do.

    Attributes:
        lane: the session's, set before anything else is called.
    """

    lane: Lane

    def __init__(
        self, held: Holding, outbox: Outbox, resting: Resting, on_over: Callable[[], None]
    ) -> None:
        self._held = held
        self._outbox = outbox
        self._resting = resting
        self._on_over = on_over
        self._visitors = 0  # calls that look for their place in the lane
        self._is_needed = False  # what it holds could not be let go
        self._idling: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """Note that there is something to do."""
        if self._idling is not None:
            self._idling.cancel()
        self._is_needed = False
        self._resting.discard(self)

    def begin(self) -> None:
        """Note that there is nothing to do: be forgotten once closed, let go after a while."""
        if self._held.opened is not None:
            loop = asyncio.get_running_loop()
            self._idling = loop.call_later(self._held.opened.idle_seconds, self.let_go)
            if not self._is_needed:
                self._resting.add(self)
        elif self._held.terms is None and not self._visitors:
            self._on_over()

    @contextmanager
    def visit(self) -> Iterator[None]:
        """Be here while a call looks for its place; be forgotten if it came to nothing."""
        self._visitors += 1
        try:
            yield
        finally:
            self._visitors -= 1
            if self.lane.is_idle and self._held.opened is None:
                self.begin()

    def let_go(self) -> None:
        """Give back what is held, unless something needs it; the session stays open."""
        if self._held.opened is not None and self.lane.is_idle:
            self.lane.submit(self._evict)

    async def _evict(self) -> None:
        await self._held.evict()
        self._is_needed = self._held.opened is not None
        if not self._is_needed:
            self._outbox.forget()
