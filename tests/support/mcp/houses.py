"""MCP servers that nobody here wrote, and an agent that has one.

Owns where they are found and how they are started. Refuses to know what is asked of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon
from support.peers import missing, require_program
from support.person import pair
from support.scripts import says, scripted_agent
from support.waiting import PATIENCE_SECONDS

AGENT = "visitor"

_NODE = Path(__file__).parents[2] / "mcp" / "node"


def node_server(name: str, *arguments: str) -> list[str]:
    """Return the command of a server from npm."""
    program = _NODE / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    if not program.exists():
        missing(f"needs {name}: npm ci in tests/mcp/node")
    return [require_program("node"), str(program), *arguments]


def python_server(module: str, *arguments: str) -> list[str]:
    """Return the command of a server from the Python packages that the tests need."""
    return [sys.executable, "-m", module, *arguments]


def by_command(command: list[str], **keys: Any) -> dict[str, Any]:
    """Declare a server that is a program of ours."""
    return {"command": command[0], "args": command[1:], "start": "eager", **keys}


def visitor(server: str, declared: dict[str, Any], *replies: Any, **front_matter: Any) -> None:
    """Write an agent with one server, whose model calls go by a script and end with `Done.`."""
    keys = {"permissions": "auto", "mcp_servers": {server: declared}, **front_matter}
    scripted_agent(AGENT, *replies, says("Done."), **keys)


@contextlib.asynccontextmanager
async def visit(server: str, **initialize: Any) -> AsyncIterator[Daemon]:
    """Run a daemon with the agent's session open, its server ready."""
    async with daemon(initialize=False) as client:
        await client.initialize(**initialize)
        await client.request("session/resume", here())
        await client.until(
            lambda: any(
                one["server"] == server and one["state"] == "ready"
                for one in client.of("mcp/status")
            )
        )
        yield client


def here(**members: Any) -> dict[str, Any]:
    """Return the params of a method of the agent's session."""
    return pair("test", AGENT, **members)


async def results(client: Daemon) -> list[dict[str, Any]]:
    """Return the messages that the session's calls came to."""
    read = await client.request("session/read", here())
    return [one for one in read["messages"] if one["role"] == "tool"]


@contextlib.asynccontextmanager
async def everything_over_http() -> AsyncIterator[str]:
    """Run npm's server of everything behind streamable HTTP; return its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *node_server("server-everything", "streamableHttp"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PORT": str(port)},
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await _listens(port):  # noqa: ASYNC110 - nothing tells that it does
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
