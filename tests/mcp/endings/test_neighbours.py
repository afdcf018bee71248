"""A server that is dead, hung or loud does nothing to the one beside it, nor to the prompt."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, daemon
from support.mcp.home import Home, open_home
from support.model_server import Answer, ModelServer, Request
from support.person import on, pair, write_agent
from support.process import linux_only, peak_resident_bytes
from treadle.folders import LOG_VARIABLE

pytestmark = linux_only

# A turn waits three seconds for servers that are being started, and a busy machine adds to that; it
# must not wait for the sixty seconds that a start may take.
FIRST_CALL_SECONDS = 30.0
# What a daemon with an agent and a few servers occupies, and the 16 MB of buffers of a loud one.
MOST_RESIDENT_BYTES = 220 << 20


# A line or two of each thing that happened, never of what a server says.
MOST_LOG_BYTES = 1 << 20


def sizes_of_logs() -> list[int]:
    return [log.stat().st_size for log in Path(os.environ[LOG_VARIABLE]).iterdir()]


def declare(home: Home, **servers: tuple[str, ...]) -> None:
    """Write an agent with these servers, each with its misdeeds."""
    declared: dict[str, Any] = {}
    for name, misdeeds in servers.items():
        command = home.command(name, *misdeeds)
        start = "eager" if name == "good" else "lazy"
        declared[name] = {"command": command[0], "args": command[1:], "start": start}
    write_agent("many", permissions="auto", mcp_servers=json.dumps(declared))


async def opened(client: Daemon) -> None:
    """Open the agent's session, its good server ready."""
    await client.request("session/resume", pair("a", "many"))
    await told(client, "good", "ready")


async def told(client: Daemon, server: str, state: str) -> None:
    """Wait until it was told that a server does something."""
    await client.until(
        lambda: any(
            (one["server"], one["state"]) == (server, state) for one in client.of("mcp/status")
        )
    )


def call_each(request: Request) -> Answer:
    """Call `echo` of every server that is there, once."""
    if request["messages"][-1]["role"] == "tool":
        return Answer(str(request["messages"][-1]["content"]))
    offered = [tool["function"]["name"] for tool in request.get("tools", ())]
    return Answer(calls=[(name, {"text": "hello"}) for name in offered if name == "good__echo"])


async def test_a_dead_and_a_hung_server_leave_the_good_one_and_the_prompt_alone() -> None:
    async with (
        open_home() as home,
        ModelServer(call_each) as model,
        daemon(env=on(model)) as client,
    ):
        declare(home, good=(), dead=("die-at-start",), hung=("silent-initialize",))
        await opened(client)
        turn = client.ask("session/prompt", pair("a", "many", prompt="Go."))
        async with asyncio.timeout(FIRST_CALL_SECONDS):
            await model.until(lambda: bool(model.requests))
        assert (await turn)["text"] == "hello"
        await told(client, "dead", "failed")
        listed = await client.request("mcp/list", pair("a", "many"))
        servers = {server["server"]: server for server in listed["servers"]}
        assert {name: server["state"] for name, server in servers.items()} == {
            "good": "ready",
            "dead": "failed",
            "hung": "starting",
        }
        assert "cannot start: the kit was told to die" in servers["dead"]["stderrTail"]
        assert servers["dead"]["lastError"]
        # The next prompt is not late either.
        turn = client.ask("session/prompt", pair("a", "many", prompt="Again."))
        async with asyncio.timeout(FIRST_CALL_SECONDS):
            await model.until(lambda: len(model.requests) > 2)
        assert (await turn)["text"] == "hello"
        closed = await client.request("session/close", pair("a", "many"))
        assert {server["server"] for server in closed["released"]["servers"]} >= {"good", "hung"}
        await home.until(lambda: not home.alive(["good", "dead", "hung"]))


@pytest.mark.parametrize("what", ["stderr", "stdout", "line", "notifications"])
async def test_a_flood_at_full_speed_drowns_nobody(what: str) -> None:
    async with (
        open_home() as home,
        ModelServer(call_each) as model,
        daemon(env=on(model)) as client,
    ):
        declare(home, good=(), loud=(f"flood-{what}=0",))
        await opened(client)
        turn = client.ask("session/prompt", pair("a", "many", prompt="Go."))
        async with asyncio.timeout(FIRST_CALL_SECONDS):
            await model.until(lambda: bool(model.requests))
        assert (await turn)["text"] == "hello"
        for _ in range(3):
            said = pair("a", "many", prompt="Again.")
            assert (await client.request("session/prompt", said))["text"] == "hello"
        await client.request("session/close", pair("a", "many"))
        await home.until(lambda: not home.alive(["good", "loud"]))
        assert peak_resident_bytes(client.process.pid) < MOST_RESIDENT_BYTES
        assert max(sizes_of_logs()) < MOST_LOG_BYTES
