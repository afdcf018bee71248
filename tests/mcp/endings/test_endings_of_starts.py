"""A server's start fails, or is given up: nothing of the server survives, nothing waits."""

from __future__ import annotations

import asyncio

import pytest

from support.mcp.endings import CANCEL_SECONDS, SIDE_BY_SIDE, Visit, visited
from support.mcp.misdeeds import MISDEEDS, STUBBORN
from support.person import pair
from support.process import posix_only

pytestmark = posix_only

# Shorter than any test, longer than a Python needs to start on a busy machine.
START_SECONDS = 1.5

# They mostly wait.
MANY = 3 * SIDE_BY_SIDE

# Every server answers nothing from its first message on, beside what it does wrong anyway.
SILENT = ("silent-initialize",)


@pytest.mark.parametrize("start", ["lazy", "eager"])
async def test_a_failed_start_leaves_nothing_and_the_session_works(start: str) -> None:
    async with visited(f"failed-{start}", SILENT, start=start, start_seconds=START_SECONDS) as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            if start == "lazy":
                await made.call_good(visit)
            await made.home.until(lambda: bool(made.home.servers(visit.bad)))
            await made.gone(visit.bad, after_seconds=START_SECONDS)
            assert (await made.until_state(visit, "bad", "failed"))["lastError"]
            assert (await made.until_state(visit, "good", "ready"))["pid"]
            await made.call_good(visit)

        async def end(visit: Visit) -> None:
            await made.close(visit)
            await made.gone(*visit.names)

        await made.each(use, MANY)
        await made.each(end)


@pytest.mark.parametrize("scope", ["session", "agent"])
async def test_a_turn_that_is_cancelled_while_its_server_starts(scope: str) -> None:
    misdeeds = STUBBORN if scope == "agent" else MISDEEDS
    async with visited(f"cancelled-{scope}", SILENT, misdeeds, scope=scope) as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            said = pair("a", visit.name, prompt=f"{visit.name} wait")
            visit.turn = made.client.ask("session/prompt", said)
            await made.home.until(lambda: bool(made.home.servers(visit.bad)))
            async with asyncio.timeout(CANCEL_SECONDS):
                await made.client.request("session/cancel", pair("a", visit.name))
                assert (await visit.turn)["stopReason"] == "cancelled"
            await made.close(visit)
            await made.gone(*visit.names)

        await made.each(use, SIDE_BY_SIDE)


async def test_a_session_that_is_closed_while_its_server_starts() -> None:
    async with visited("closed", SILENT, start="eager") as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            await made.home.until(lambda: bool(made.home.servers(visit.bad)))
            await made.close(visit)
            await made.gone(*visit.names)

        await made.each(use, SIDE_BY_SIDE)
