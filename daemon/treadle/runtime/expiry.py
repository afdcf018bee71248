"""When threads expire: some time after the daemon began, and then once a day.

Owns the clock and the worker thread; `thread/retention` says what may go. Without `[retention]`
in config.toml it only looks whether there is one by now.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from treadle.agents.catalogue import Catalogue
from treadle.errors import InvalidAgent
from treadle.thread import retention, whole

logger = logging.getLogger(__name__)

# The first requests of an editor that has just begun are answered by then.
FIRST_SECONDS = 60.0

# Threads expire by days.
AGAIN_SECONDS = 86_400.0

# Between two deletions others get the processor, and the disk, for a moment.
BREATH_SECONDS = 0.001

# A single deletion takes milliseconds; after this long the disk does not answer.
DELETION_SECONDS = 5.0

# A close waits this long for the deletion under way; what a kill leaves of it is found later.
CLOSE_SECONDS = 1.0


class Expiry:
    """Deletes threads whose time has come.

    Args:
        data: the data folder.
        catalogue: where the person's configuration is.
        now_ns: the time.
    """

    def __init__(
        self, data: Path, catalogue: Catalogue, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._data = data
        self._catalogue = catalogue
        self._now_ns = now_ns
        self._is_open: Callable[[str, str], bool] = lambda *_: False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self._deleting = threading.Lock()

    def begin(self, is_open: Callable[[str, str], bool]) -> None:
        """Look for the first time in a minute.

        Args:
            is_open: whether a pair is open in this process. Contract: it is called in a worker
                thread, and must neither raise nor block.
        """
        self._is_open = is_open
        self._wait(FIRST_SECONDS)

    async def close(self) -> None:
        """Look no more; a deletion under way is waited for, within a bound."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)

    def settle(self) -> None:
        """Wait, within a bound, until no thread is in the middle of being deleted; it blocks."""
        if self._deleting.acquire(timeout=DELETION_SECONDS):
            self._deleting.release()

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin_look)

    def _begin_look(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            await asyncio.to_thread(self._expire)
        except InvalidAgent as error:
            logger.warning("nothing expires while config.toml is broken: %s", error.message)
        except Exception:
            logger.exception("expired threads could not be deleted")
        if not self._stop.is_set():
            self._wait(AGAIN_SECONDS)

    def _expire(self) -> None:
        """Delete what is due, in a worker thread."""
        with self._deleting:
            whole.finish(self._data)
        settings = self._catalogue.config().retention
        policy = retention.Policy(settings.days, settings.threads)
        if not policy:
            return
        deleted = kept = 0
        for due in retention.look(self._data, policy, self._now_ns()):
            if self._stop.is_set():
                break
            if not due.stays and self._delete(due):
                deleted += 1
            else:
                kept += 1
            self._stop.wait(BREATH_SECONDS)
        with self._deleting:
            retention.tidy(self._data)
        logger.info("%d threads have expired and are deleted; %d that are due stay", deleted, kept)

    def _delete(self, due: retention.Due) -> bool:
        with self._deleting:
            return retention.delete(due, self._now_ns(), self._is_open)
