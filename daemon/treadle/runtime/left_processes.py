"""The record of the processes that a daemon starts, and the end of what an earlier one left.

Owns when: from a runtime's beginning to its end, in a worker thread. Refuses to know how processes
are recorded, found and ended: `process/` does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from treadle.process.left import reap_left
from treadle.process.reaper import REAPER

# What was left is gone within half a second; after this long the disk does not answer.
CLOSE_SECONDS = 1.0


class LeftProcesses:
    """Begins at once; `close` awaits it.

    Args:
        data: the data folder.
    """

    def __init__(self, data: Path) -> None:
        self._folder = data / "processes"
        REAPER.record_in(self._folder)
        self._reaping = asyncio.create_task(asyncio.to_thread(reap_left, self._folder))
        self._stopping: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop recording, once everything has ended that was started here. Safe to call twice."""
        if self._stopping is None:
            stopping = asyncio.to_thread(REAPER.stop_recording, self._folder)
            self._stopping = asyncio.create_task(stopping)
        await asyncio.wait({self._reaping, self._stopping}, timeout=CLOSE_SECONDS)
