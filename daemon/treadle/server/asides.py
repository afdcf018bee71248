"""What is done aside of any request; owns these tasks until they have ended.

Refuses to know what they do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Asides:
    """Tasks that nobody waits for but their owner, who closes them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin something; its failure is logged, and need not be looked at by anybody.

        Args:
            work: what is to be done.

        Returns:
            Its task, for those who want to know whether it has ended.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    async def close(self, timeout_seconds: float) -> None:
        """Cancel what still runs, and wait until it has ended.

        Args:
            timeout_seconds: how long; what resists is left to itself.
        """
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_seconds)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("what was begun aside of a request failed", exc_info=error)
