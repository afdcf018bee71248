"""Waits of tests: for a condition, never for a time, and within one bound."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

# Far more than anything here takes on a busy machine; a test that waits this long has failed. A
# command that starts where others want five times the processor may need half of it.
PATIENCE_SECONDS = 60.0

# How often to look at what tells nobody of its changes: a file, another process.
POLL_SECONDS = 0.01


class Waitable:
    """Something that happens to a test; whoever makes it happen calls `changed`."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def changed(self) -> None:
        """Have every condition that is waited for asked again."""
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, within a bound, until the condition holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()


async def until_seen(condition: Callable[[], bool]) -> None:
    """Wait, within a bound, until a condition holds that nobody tells of."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is looked at cannot set an event
            await asyncio.sleep(POLL_SECONDS)


async def until_threads_end(name: str) -> None:
    """Wait, within a bound, until no thread of this name is left."""
    for thread in threading.enumerate():
        if thread.name == name:
            await asyncio.to_thread(thread.join, PATIENCE_SECONDS)
            assert not thread.is_alive()
