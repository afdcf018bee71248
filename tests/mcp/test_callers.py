"""Whose call a server answers, and how long that may take."""

from __future__ import annotations

import asyncio

import pytest

from treadle.mcp.callers import Callers
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
