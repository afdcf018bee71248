"""Compaction through `treadle.Session`: what subscribers hear, and that nothing is left."""

from __future__ import annotations

import asyncio

import pytest

from support.model_server import Answer, ModelServer
from support.person import on
from support.small_window import LONG, SUMMARY, is_summary, summing_up, write_counting
from support.waiting import PATIENCE_SECONDS
from treadle import Session
from treadle.compaction.told import Compacted, Compacting


@pytest.fixture(autouse=True)
def _small_window() -> None:
    write_counting()


async def talked(count: int) -> Session:
    session = await Session.resume("counter", "a")
    for number in range(count):
        await session.prompt(f"{number} {LONG}")
    return session


async def test_subscribers_get_the_messages_that_were_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[Compacting | Compacted] = []
    async with ModelServer(summing_up()) as server:
        for name, value in on(server).items():
            monkeypatch.setenv(name, value)
        async with await talked(4) as session:
            session.on("compacting", lambda _, told: heard.append(told))
            session.on("compacted", lambda _, told: heard.append(told))
            compacted = await session.compact("Keep the basket.")
    begun, ended = heard
    assert isinstance(begun, Compacting) and begun.trigger == "manual"
    assert ended == compacted and ended.id == begun.id
    assert compacted.outcome == "completed"
    said = [(one.ordinal, one.message.text) for one in compacted.gave_up]
    assert said[:2] == [(0, f"0 {LONG}"), (1, "Re 0 apples")]


async def test_a_caller_that_is_cancelled_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()
    slow = summing_up(lambda: Answer(SUMMARY, pause_after=1, go_on=go_on))
    heard: list[str] = []
    async with ModelServer(slow) as server:
        for name, value in on(server).items():
            monkeypatch.setenv(name, value)
        async with await talked(4) as session:
            session.on("compacted", lambda _, told: heard.append(told.outcome))
            compacting = asyncio.create_task(session.compact())
            await server.until(lambda: is_summary(server.requests[-1]))
            compacting.cancel()
            async with asyncio.timeout(PATIENCE_SECONDS):
                with pytest.raises(asyncio.CancelledError):
                    await compacting
            assert heard == ["cancelled"]
            assert (await session.prompt("Still there?")).text == "Re Still there?"
