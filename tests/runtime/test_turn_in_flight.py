"""Stopping a turn: at any moment, twice, within a bound, and gently enough to end cleanly."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from treadle.runtime import turn_in_flight
from treadle.runtime.turn_in_flight import TurnInFlight, TurnStopped


async def _end(turn: TurnInFlight, work: asyncio.Task[None]) -> TurnStopped:
    """Wait for a stopped turn and end it, as its session does."""
    with pytest.raises(TurnStopped) as stopped:
        await work
    turn.end(None)
    return stopped.value


async def _running(turn: TurnInFlight, resists: int = 0) -> tuple[asyncio.Task[None], list[str]]:
    """Run a turn that swallows so many cancels."""
    log: list[str] = []

    async def work() -> None:
        for _ in range(resists):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            log.append("swallowed")
        await asyncio.Event().wait()

    task = asyncio.create_task(turn.run(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task, log


async def test_a_stop_ends_a_turn_and_is_answered_when_it_has_ended() -> None:
    turn = TurnInFlight()
    work, _ = await _running(turn)
    stop = asyncio.create_task(turn.stop("cancelled"))
    assert not (await _end(turn, work)).left_behind
    assert await stop
    assert (turn.cause, turn.end(None).stop_reason) == ("cancelled", "cancelled")


async def test_a_turn_that_was_stopped_before_it_began_does_nothing() -> None:
    turn = TurnInFlight()
    turn.mark("closed")
    begun: list[str] = []

    async def work() -> None:
        begun.append("begun")

    with pytest.raises(TurnStopped):
        await turn.run(work())
    assert begun == []
    assert turn.end(None).stop_reason == "closed"
    assert await turn.stop("cancelled")
    assert turn.cause == "closed"


async def test_several_stops_at_once_cancel_only_once() -> None:
    turn = TurnInFlight()
    work, log = await _running(turn, resists=1)
    stops = [asyncio.create_task(turn.stop("cancelled")) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert log == ["swallowed"]
    work.cancel()
    for stop in stops:
        stop.cancel()
    await asyncio.gather(work, *stops, return_exceptions=True)
    turn.end(None)


async def test_a_turn_that_resists_is_told_again_and_then_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_in_flight, "TELL_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(turn_in_flight, "LEAVE_BEHIND_SECONDS", 0.05)
    twice, thrice = TurnInFlight(), TurnInFlight()
    for turn, resists, left_behind in ((twice, 1, False), (thrice, 2, True)):
        work, log = await _running(turn, resists=resists)
        stop = asyncio.create_task(turn.stop("cancelled"))
        assert (await _end(turn, work)).left_behind is left_behind
        assert await stop
        assert log == ["swallowed"] * resists
    [stubborn] = turn_in_flight._left_behind
    stubborn.cancel()
    await asyncio.gather(stubborn, return_exceptions=True)
    await asyncio.sleep(0)
    assert turn_in_flight._left_behind == set()


async def test_a_stop_is_answered_although_nothing_of_the_turn_can_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_in_flight, "STOP_SECONDS", 0.05)
    turn = TurnInFlight()
    assert not await turn.stop("cancelled")
    with pytest.raises(TurnStopped):
        await turn.run(asyncio.sleep(0))
    turn.end(None)
    assert await turn.stop("cancelled")


async def test_an_error_of_the_turn_is_passed_on_and_not_taken_for_a_stop() -> None:
    async def fail() -> None:
        raise ValueError("x")

    turn = TurnInFlight()
    with pytest.raises(ValueError, match="x"):
        await turn.run(fail())
    turn.end(None)
