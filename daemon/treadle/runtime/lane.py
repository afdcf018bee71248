"""A lane: the work of one session, one piece at a time, in order of arrival.

Knows nothing of what the work is. Its worker lives only while there is work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[T]):
    """A piece of work that waits or runs; `outcome` is settled exactly once."""

    work: Callable[[], Awaitable[T]]
    outcome: asyncio.Future[T]


class Lane:
    """Runs jobs in order; `on_empty` is called whenever the last one has ended.

    Contract: `on_empty` must not raise or suspend. Work is never cancelled by the lane;
    whoever wants a job to stop asks the work itself.
    """

    def __init__(self, on_empty: Callable[[], None]) -> None:
        self._on_empty = on_empty
        self._waiting: deque[Job[Any]] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a job waits or runs."""
        return self._worker is not None

    @property
    def queued(self) -> int:
        """How many jobs wait behind the running one."""
        return len(self._waiting)

    def submit(self, work: Callable[[], Awaitable[T]]) -> Job[T]:
        """Put work at the end of the lane; it may have begun once the caller suspends."""
        job = Job(work, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._worker is None:
            self._worker = asyncio.create_task(self._run())
        return job

    def withdraw(self, job: Job[Any]) -> bool:
        """Take a job back; return whether it was still waiting and now never runs."""
        if job not in self._waiting:
            return False
        self._waiting.remove(job)
        job.outcome.cancel()
        return True

    async def _run(self) -> None:
        while self._waiting:
            job = self._waiting.popleft()
            try:
                outcome = await job.work()
            except BaseException as error:
                if not job.outcome.done():
                    job.outcome.set_exception(_storable(error))
            else:
                if not job.outcome.done():
                    job.outcome.set_result(outcome)
            # Whoever awaits the outcome runs before the next job: a resume's reply is on its
            # way before the events of the prompt behind it.
            await asyncio.sleep(0)
        self._worker = None
        self._on_empty()


def _storable(error: BaseException) -> BaseException:
    """Return what a future can hold; StopIteration would break whoever awaits it."""
    return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
