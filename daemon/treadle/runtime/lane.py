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


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    """A piece of work that waits or runs; `outcome` is settled exactly once."""

    work: Callable[[], Awaitable[T]]
    outcome: asyncio.Future[T]
    has_begun: bool = False


class Lane:
    """Runs jobs in order.

    Args:
        on_told: called after each job, once whoever awaits its outcome knows it.
        on_empty: called whenever the last job has ended.

    Contract: neither may raise or suspend. Work is never cancelled by the lane; whoever wants a
    job to stop asks the work itself.
    """

    def __init__(self, on_told: Callable[[], None], on_empty: Callable[[], None]) -> None:
        self._on_told = on_told
        self._on_empty = on_empty
        self._waiting: deque[Job[Any]] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do."""
        return self._worker is None

    def submit(self, work: Callable[[], Awaitable[T]]) -> Job[T]:
        """Put work at the end of the lane; it may have begun once the caller suspends."""
        job = Job(work, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._worker is None:
            self._worker = asyncio.create_task(self._run())
        return job

    def withdraw(self, job: Job[Any]) -> None:
        """Take a job back, so that it never runs, unless it has begun."""
        if job in self._waiting:
            self._waiting.remove(job)
            job.outcome.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await _settle(self._waiting.popleft())
                # Whoever awaits the outcome runs before anything else is told or begun: a
                # resume's reply is on its way before the events of the prompt behind it.
                await asyncio.sleep(0)
                self._on_told()
        finally:
            # Only a loop that ends leaves anything here: then nothing may begin any more.
            for job in self._waiting:
                job.outcome.cancel()
            self._waiting.clear()
            self._worker = None
            self._on_empty()


async def _settle(job: Job[Any]) -> None:
    """Do a job's work and settle its outcome, unless whoever wanted it is gone.

    Raises:
        asyncio.CancelledError: the lane itself was cancelled, because the loop is ending.
    """
    job.has_begun = True
    try:
        outcome = await job.work()
    except asyncio.CancelledError:
        job.outcome.cancel()
        worker = asyncio.current_task()
        if worker is not None and worker.cancelling():
            raise
    except BaseException as error:
        if not job.outcome.done():
            job.outcome.set_exception(_storable(error))
    else:
        if not job.outcome.done():
            job.outcome.set_result(outcome)


def _storable(error: BaseException) -> BaseException:
    """Return what a future can hold; StopIteration would break whoever awaits it."""
    return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
