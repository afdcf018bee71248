"""When a server that failed may be started again."""

from __future__ import annotations

from treadle.mcp.breaker import (
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    MOST_IN_A_ROW,
    SOUND_SECONDS,
    Breaker,
)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_failure_in_a_row_is_waited_for_twice_as_long_and_then_it_opens() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    assert breaker.wait_seconds == 0 and not breaker.is_open
    waits = []
    for _ in range(MOST_IN_A_ROW):
        breaker.failed()
        waits.append(breaker.wait_seconds)
    assert waits == [
        *(FIRST_WAIT_SECONDS * 2**n for n in range(MOST_IN_A_ROW - 1)),
        LONGEST_WAIT_SECONDS,
    ]
    assert breaker.is_open
    clock.now += LONGEST_WAIT_SECONDS
    assert breaker.wait_seconds == 0


def test_a_server_that_ran_for_long_or_answered_begins_anew() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(MOST_IN_A_ROW):
        breaker.failed()
    breaker.failed(ran_seconds=SOUND_SECONDS)
    assert not breaker.is_open and breaker.wait_seconds == FIRST_WAIT_SECONDS
    breaker.answered(clock.now)
    assert breaker.wait_seconds == 0


def test_what_has_run_since_before_a_failure_does_not_excuse_it() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    since = clock.now
    for _ in range(MOST_IN_A_ROW):
        clock.now += 1
        breaker.failed()
        breaker.answered(since)
    assert breaker.is_open and breaker.wait_seconds == LONGEST_WAIT_SECONDS
