"""The daemon ends, in every way, in the middle of calls: none of its servers survives it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.daemon import Daemon
from support.mcp.endings import (
    SHUTDOWN_SECONDS,
    SIDE_BY_SIDE,
    Visit,
    ends_within,
    helpers_of,
    house,
    until_all_dead,
)
from support.mcp.misdeeds import MISDEEDS, STUBBORN
from support.process import linux_only


async def _leave(client: Daemon) -> None:
    client.stdin.close()
    await ends_within(client, SHUTDOWN_SECONDS)


async def _shut_down(client: Daemon) -> None:
    async with asyncio.timeout(SHUTDOWN_SECONDS):
        await client.request("shutdown")
        client.notify("exit")
        assert await client.process.wait() == 0


async def _terminate(client: Daemon) -> None:
    client.process.send_signal(signal.SIGTERM)
    await ends_within(client, SHUTDOWN_SECONDS)


async def _kill(client: Daemon) -> None:
    client.process.kill()
    await ends_within(client, SHUTDOWN_SECONDS)


ENDINGS: dict[str, Callable[[Daemon], Awaitable[None]]] = {
    "client-gone": _leave,
    "shutdown": _shut_down,
    "terminated": _terminate,
    "killed": _kill,
}


@linux_only
@pytest.mark.parametrize(
    ("ending", "moment"),
    [
        ("client-gone", "busy"),
        ("shutdown", "busy"),
        ("shutdown", "shared"),
        ("terminated", "busy"),
        ("killed", "idle"),
        ("killed", "busy"),
        ("killed", "shared"),
    ],
)
async def test_no_server_survives_the_daemon(ending: str, moment: str) -> None:
    settings: dict[str, Any] = {"scope": "agent"} if moment == "shared" else {}
    misdeeds = MISDEEDS if moment == "busy" else STUBBORN
    visits = [Visit(f"{ending}-{moment}-{each.name}", each, settings) for each in misdeeds]
    async with house(visits) as made:

        async def use(visit: Visit) -> None:
            for instance in ("a", "b") if moment == "shared" else ("a",):
                await made.open(visit, instance)
                await made.call(visit, instance)
            if moment == "busy":
                await made.be_busy(visit)

        async def end(visit: Visit) -> None:
            await made.gone(*visit.names)

        await made.each(use, SIDE_BY_SIDE)
        helpers = helpers_of(made.client, made.home)
        await ENDINGS[ending](made.client)
        await made.each(end)
        await until_all_dead(helpers)
