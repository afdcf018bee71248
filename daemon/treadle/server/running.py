"""The runtime of a daemon that serves: made when it is first needed, closed within a bound."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from treadle.folders import Folders
from treadle.server.link import step

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

# Opening threads, flushing them and plain tools share these. asyncio's own number, six on two
# cores, would let a few tools that hang hold up every session.
WORKER_THREADS = 32

# Interrupting turns and closing models have bounds of their own, which together stay below this.
RUNTIME_SECONDS = 6.0


class Running:
    """At most one runtime.

    Args:
        folders: where configuration, data and cache lie.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.runtime: Runtime | None = None

    def open(self) -> Runtime:
        """Return the runtime, made at the first call."""
        if self.runtime is None:
            from concurrent.futures import ThreadPoolExecutor

            from treadle.runtime.runtime import Runtime

            workers = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="treadle-worker")
            asyncio.get_running_loop().set_default_executor(workers)
            self.runtime = Runtime(self._folders)
        return self.runtime

    @property
    def goes_on(self) -> str:
        """What goes on in sessions, in words; empty where nothing does."""
        return self.runtime.census().goes_on if self.runtime else ""

    async def close(self) -> None:
        """Close the runtime, if there is one."""
        if self.runtime is not None:
            await self.runtime.close()

    async def close_in_time(self) -> None:
        """Close it as a step of the daemon's end: no longer than its bound, whatever happens."""
        await step("the sessions", self.close(), RUNTIME_SECONDS)

    def has_lost(self) -> bool:
        """Whether anything that was said is kept nowhere; the log has told of it, or does now."""
        if self.runtime is None:
            return False
        from treadle.thread.leaving import losses

        for what in losses.at_stake:
            logger.critical("LOST: %s: the daemon ended before that was kept elsewhere", what)
        return bool(losses.told or losses.at_stake)
