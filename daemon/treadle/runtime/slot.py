"""A turn's place among those that run at once in the daemon.

Owns that it is given back exactly once, however the turn ends.
"""

from __future__ import annotations

import asyncio


class Slot:
    """One of the daemon's places for turns, as long as a turn needs it.

    Args:
        slots: all of them.
    """

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._taking = asyncio.Lock()
        self._is_held = False
        self._is_over = False

    @property
    def is_free(self) -> bool:
        """Whether it can be taken at once."""
        return not self._slots.locked()

    async def take(self) -> None:
        """Wait for a place; at once where the turn has one."""
        async with self._taking:
            if self._is_held or self._is_over:
                return
            await self._slots.acquire()
            self._is_held = True
            if self._is_over:
                self.give_back()

    def give_back(self) -> None:
        """Let another turn have the place, while this one waits for a person."""
        if self._is_held:
            self._is_held = False
            self._slots.release()

    def end(self) -> None:
        """Give the place back for good: the turn is over, whatever is left behind of it."""
        self._is_over = True
        self.give_back()
