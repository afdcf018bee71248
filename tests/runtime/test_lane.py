"""A lane: work in order of arrival, each outcome settled once, also when the loop ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support.waiting import until_seen
from treadle.runtime.lane import Lane


class _Log:
    def __init__(self) -> None:
        self.entries: list[str] = []
        self.lane = Lane(lambda: self.entries.append("told"), lambda: self.entries.append("empty"))

    def work(self, name: str) -> Callable[[], Awaitable[str]]:
        async def work() -> str:
            self.entries.append(name)
            await asyncio.sleep(0)
            return name

        return work


async def test_work_is_done_in_order_of_arrival_and_told_before_the_next_begins() -> None:
    log = _Log()
    jobs = [log.lane.submit(log.work(name)) for name in "abc"]
    for job in jobs:
        job.outcome.add_done_callback(lambda done: log.entries.append(f"outcome {done.result()}"))

    assert [await job.outcome for job in jobs] == ["a", "b", "c"]
    await until_seen(lambda: log.lane.is_idle)
    told = [entry for name in "abc" for entry in (name, f"outcome {name}", "told")]
    assert log.entries == [*told, "empty"]


async def test_work_that_fails_is_its_own_outcome_and_the_lane_goes_on() -> None:
    async def fail(error: BaseException) -> None:
        raise error

    lane = Lane(lambda: None, lambda: None)
    errors = [ValueError("x"), StopIteration("y"), SystemExit(1)]
    failing = [lane.submit(lambda error=error: fail(error)) for error in errors]
    cancelled = lane.submit(lambda: fail(asyncio.CancelledError()))
    after = lane.submit(lambda: asyncio.sleep(0, "after"))

    for job, kind in zip(failing, [ValueError, RuntimeError, SystemExit], strict=True):
        with pytest.raises(kind):
            await job.outcome
    with pytest.raises(asyncio.CancelledError):
        await cancelled.outcome
    assert await after.outcome == "after"


async def test_work_that_is_taken_back_never_runs() -> None:
    log = _Log()
    first, second, third = [log.lane.submit(log.work(name)) for name in "abc"]
    log.lane.withdraw(second)
    await third.outcome
    log.lane.withdraw(first)

    assert first.outcome.result() == "a"
    assert second.outcome.cancelled()
    assert [entry for entry in log.entries if len(entry) == 1] == ["a", "c"]


async def test_work_whose_caller_is_gone_is_done_all_the_same() -> None:
    log = _Log()
    gone = log.lane.submit(log.work("gone"))
    gone.outcome.cancel()
    assert await log.lane.submit(log.work("after")).outcome == "after"
    assert "gone" in log.entries


def test_a_loop_that_ends_begins_nothing_that_still_waits() -> None:
    begun: list[str] = []

    async def stay(name: str) -> None:
        begun.append(name)
        await asyncio.Event().wait()

    async def main() -> None:
        lane = Lane(lambda: None, lambda: begun.append("empty"))
        for name in "ab":
            lane.submit(lambda name=name: stay(name))
        await until_seen(lambda: bool(begun))

    asyncio.run(main())
    assert begun == ["a", "empty"]


async def test_a_lane_that_is_cancelled_settles_whatever_waits_in_it() -> None:
    lane = Lane(lambda: None, lambda: None)
    jobs = [lane.submit(asyncio.Event().wait) for _ in range(3)]
    await until_seen(lambda: jobs[0].has_begun)
    assert lane._worker is not None
    lane._worker.cancel()
    outcomes = await asyncio.gather(*(job.outcome for job in jobs), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 3
    assert await lane.submit(lambda: asyncio.sleep(0, "after")).outcome == "after"
