"""A session ends while its server misbehaves: nothing of the server survives, nothing waits."""

from __future__ import annotations

import asyncio

from support.mcp.endings import CANCEL_SECONDS, SIDE_BY_SIDE, Visit, visited
from support.mcp.misdeeds import STUBBORN
from support.person import pair
from support.process import posix_only

pytestmark = posix_only


async def test_a_session_that_is_closed_tells_how_its_servers_ended() -> None:
    async with visited("close") as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            await made.call(visit)

        async def end(visit: Visit) -> None:
            released = await made.close(visit)
            await made.gone(*visit.names)
            assert made.ended("good", visit.good, 0) in released
            misdeed = visit.misdeed
            if misdeed.exit is not None:
                assert made.ended("bad", visit.bad, misdeed.exit, misdeed.by) in released
            assert await made.close_again(visit) == []

        await made.each(use, SIDE_BY_SIDE)
        await made.each(end)


async def test_a_session_that_is_closed_in_a_turn_ends_both() -> None:
    async with visited("close-busy") as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            await made.call(visit)
            await made.be_busy(visit)

        async def end(visit: Visit) -> None:
            released = await made.close(visit)
            await made.gone(*visit.names)
            assert made.ended("good", visit.good, 0) in released
            assert visit.turn is not None
            assert (await visit.turn)["stopReason"] == "closed"

        await made.each(use, SIDE_BY_SIDE)
        await made.each(end)


async def test_servers_that_began_with_their_session_end_with_it() -> None:
    async with visited("close-eager", start="eager") as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            await made.home.until(lambda: all(map(made.home.servers, visit.names)))

        async def end(visit: Visit) -> None:
            await made.close(visit)
            await made.gone(*visit.names)

        await made.each(use, SIDE_BY_SIDE)
        await made.each(end)


async def test_servers_that_sessions_share_end_with_the_last_of_them() -> None:
    async with visited("close-shared", misdeeds=STUBBORN, scope="agent") as made:

        async def use(visit: Visit) -> None:
            for instance in ("a", "b"):
                await made.open(visit, instance)
                await made.call(visit, instance)

        async def end(visit: Visit) -> None:
            assert await made.close(visit, "a") == []
            (good,) = made.home.servers(visit.good)
            assert good.is_alive
            released = await made.close(visit, "b")
            await made.gone(*visit.names)
            assert made.ended("good", visit.good, 0) in released

        await made.each(use, SIDE_BY_SIDE)
        await made.each(end)


async def test_a_cancelled_call_ends_the_turn_and_the_session_goes_on() -> None:
    async with visited("cancel") as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            await made.call(visit)
            await made.be_busy(visit)

        async def end(visit: Visit) -> None:
            assert visit.turn is not None
            async with asyncio.timeout(CANCEL_SECONDS):
                await made.client.request("session/cancel", pair("a", visit.name))
                assert (await visit.turn)["stopReason"] == "cancelled"
            await made.call_good(visit)
            await made.close(visit)
            await made.gone(*visit.names)

        await made.each(use, SIDE_BY_SIDE)
        await made.each(end)


async def test_a_replaced_definition_ends_its_server_and_no_other() -> None:
    async with visited("replace") as made:

        async def use(visit: Visit) -> None:
            await made.open(visit)
            await made.call(visit)

        async def end(visit: Visit) -> None:
            before = visit.bad
            visit.generation += 1
            made.move_in(visit)
            await made.call(visit)
            await made.gone(before)
            (good,) = made.home.servers(visit.good)
            assert good.is_alive
            assert made.home.servers(visit.bad), "the new server was not started"
            await made.close(visit)
            await made.gone(before, *visit.names)

        await made.each(use, SIDE_BY_SIDE)
        await made.each(end)
