"""Whose call a server answers, and how long that may take."""

from __future__ import annotations

import asyncio

import pytest

from support.waiting import PATIENCE_SECONDS
from treadle.mcp.callers import Callers, NobodyWaits
from treadle.sandbox.virtual import VirtualSandbox
from treadle.tools.session import ToolSession
from treadle.tools.tool import ToolContext


def context(session: ToolSession | None = None) -> ToolContext:
    return ToolContext(VirtualSandbox(), session or ToolSession())


async def test_whoever_alone_has_calls_in_flight_is_asked_and_of_two_sessions_nobody() -> None:
    callers, mine, theirs = Callers(), ToolSession(), ToolSession()
    assert callers.only() is None
    async with callers.call(context(mine), 60), callers.call(context(mine), 60):
        found = callers.only()
        assert found is not None and found.session is mine
        async with callers.call(context(theirs), 60):
            assert callers.only() is None
    assert callers.only() is None


async def test_a_call_ends_at_its_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with Callers().call(context(), 0.01):
            await asyncio.Event().wait()


async def test_the_time_in_which_a_person_is_asked_is_not_the_calls() -> None:
    callers = Callers()
    async with callers.call(context(), 0.05):
        with callers.paused(), callers.paused():
            # Longer than the call may take: whoever reads the clock sees no deadline meanwhile.
            await asyncio.sleep(0.1)
    with pytest.raises(TimeoutError):
        async with callers.call(context(), 0.05):
            with callers.paused():
                pass
            await asyncio.Event().wait()


async def test_what_is_done_for_calls_ends_with_the_last_of_them() -> None:
    callers = Callers()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def ask() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with callers.call(context(), 60):
        async with callers.call(context(), 60):
            asking = asyncio.create_task(callers.on_behalf(ask()))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await begun.wait()
        assert not ended.is_set()
    with pytest.raises(NobodyWaits):
        await asyncio.wait_for(asking, PATIENCE_SECONDS)
    assert ended.is_set()


async def test_what_is_done_for_calls_is_answered_and_cancelled_as_if_it_were_alone() -> None:
    callers, ended = Callers(), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with callers.call(context(), 60):
        assert await callers.on_behalf(asyncio.sleep(0, "answer")) == "answer"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(callers.on_behalf(wait()), 0.01)
        assert ended.is_set()
