"""A session whose thread cannot be written: tried again, also while nobody says anything.

Owns when the next try is. Refuses to know how a thread is written, and whom that interests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from treadle.thread.thread import Thread

# Room is often made within seconds; then whoever made it looks whether that has helped.
FIRST_PAUSE_SECONDS = 1.0
# A disk that is away for hours is not asked more often than this; a prompt asks at once.
LONGEST_PAUSE_SECONDS = 60.0


class Recovery:
    """Tries a degraded thread again, in growing distances.

    Args:
        on_change: called when the thread's storage has changed.

    Contract: `on_change` must neither raise nor block.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._trying: asyncio.Task[None] | None = None

    def follow(self, thread: Thread) -> None:
        """Look after a thread from now on, until `leave`."""

        def changed() -> None:
            self._on_change()
            self._see_to(thread)

        thread.watch_storage(changed)
        self._see_to(thread)

    async def leave(self) -> None:
        """Try no more; a write that has begun ends by itself."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying])

    def _see_to(self, thread: Thread) -> None:
        if thread.storage == "degraded" and (self._trying is None or self._trying.done()):
            self._trying = asyncio.create_task(_try_again(thread))


async def _try_again(thread: Thread) -> None:
    pause_seconds = FIRST_PAUSE_SECONDS
    while thread.storage == "degraded":
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        await thread.recover()
