"""`treadle mcp check`: connect with one server, tell what it has, and stop it.

Owns what is told. Refuses to know how a server is started and stopped: it is the daemon's own way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.chat.wording import shorten
from treadle.cli.mcp.declared import Declared, declared_servers, named
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, to_json
from treadle.folders import Folders, find_folders
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.pool import Pool
from treadle.mcp.remote import Era
from treadle.mcp.session_servers import SessionServers
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.permissions.policy import Policy, Verdict
from treadle.process.child import Rung
from treadle.tools.tool import Tool

# Beyond the server's own time to start: what is told of that comes right after it.
TOLD_SECONDS = 2.0

# A tool's description is for the model; a person wants to see what it is about.
DESCRIPTION_CHARACTERS = 100

# What the agent's permissions come to, in a word.
_VERDICTS: dict[Verdict, str] = {"allow": "allowed", "ask": "asks", "refuse": "refused"}

# Which of the protocol's two ways it speaks, in a person's words.
_ERAS: dict[Era, str] = {
    "handshake": "handshake (initialize first)",
    "modern": "modern (2026-07-28 or later)",
}


# What ended its process, in the same.
_BY: dict[Rung, str] = {
    "exit": "itself",
    "end_of_input": "the end of its input",
    "terminate": "SIGTERM",
    "kill": "SIGKILL",
}


@dataclass(slots=True)
class Checked:
    """What came of it.

    Args:
        status: how the server was doing at last.
        tools: those that a model is told of.
        seconds: until it was ready, or had failed.
        ends: how it was stopped.
    """

    status: ServerStatus
    tools: Sequence[Tool] = ()
    seconds: float = 0.0
    ends: list[ServerEnd] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """Whether it can be used."""
        return self.status.state == "ready"


def check(
    name: Annotated[str, typer.Argument(help="The server's name.")],
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Whose server, where several have one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Connect with an MCP server, tell what it has and how it ended; or why it cannot be had.

    Exit codes: 0 it answers; 1 it does not.
    """
    # What the rooms below log is told here, and in better order.
    logging.getLogger().addHandler(logging.NullHandler())
    folders = find_folders()
    declared = named(declared_servers(folders, agent), name)
    checked = asyncio.run(_checked(declared, folders))
    if as_json:
        print(to_json(_plain(declared, checked)))
    else:
        _show(declared, checked)
    raise typer.Exit(exit_codes.OK if checked.is_ready else exit_codes.FAILED)


async def _checked(declared: Declared, folders: Folders) -> Checked:
    """Start a server as a session would, and stop it again, whatever happens.

    Args:
        declared: the server.
        folders: where what is known of servers is kept.
    """
    # As a session's own and at once, so that one server is told of, and nothing else needs it.
    server = replace(declared.server, scope="session", begin="eager")
    news: asyncio.Queue[ServerStatus] = asyncio.Queue()
    pool = Pool(folders)
    owner = declared.agent.name if declared.agent else ""
    servers = SessionServers(pool, owner, news.put_nowait)
    checked = Checked(ServerStatus(server.name, "stopped"))
    began = time.monotonic()
    try:
        await servers.use([server], _folder(declared))
        checked.status = await _settled(servers, news, server)
        checked.seconds = time.monotonic() - began
        if checked.is_ready:
            # Those that are refused too, for nothing is called.
            checked.tools = await servers.source([server], Policy("auto"))()
    finally:
        checked.ends = [*await servers.close(), *await pool.close()]
    return checked


async def _settled(
    servers: SessionServers, news: asyncio.Queue[ServerStatus], server: ServerDeclaration
) -> ServerStatus:
    """Wait until a server is ready or has failed, within the time that it has for that."""
    status = servers.statuses()[0]
    try:
        async with asyncio.timeout(server.start_seconds + TOLD_SECONDS):
            while status.state not in ("ready", "failed"):
                status = await news.get()
    except TimeoutError:
        told = f"it was not ready within {server.start_seconds:g} seconds"
        return replace(servers.statuses()[0], state="failed", error=told)
    # What is told last may be more than what was told first: the end of its standard error.
    return servers.statuses()[0] if status.state == "ready" else status


def _folder(declared: Declared) -> Path | None:
    if declared.agent is not None and declared.agent.cwd is not None:
        return declared.agent.cwd
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _show(declared: Declared, checked: Checked) -> None:
    status = checked.status
    say(f"{declared.where}  ({declared.source})")
    if checked.is_ready:
        about = f": {status.about}" if status.about else ""
        say(f"ready in {checked.seconds:.1f} s{about}")
        if status.era:
            say(f"  era: {_ERAS[status.era]}")
    else:
        say(f"failed: {status.error or status.state}")
        for line in status.stderr_tail.splitlines():
            say(f"  | {line}")
    for tool in checked.tools:
        about = shorten(" ".join(tool.spec.description.split()), DESCRIPTION_CHARACTERS)
        say(f"  {tool.spec.name}  {_verdict(declared, tool)}  {about}".rstrip())
    if checked.is_ready and not checked.tools:
        say("  no tools")
    for end in checked.ends:
        say(_ending(end))


def _verdict(declared: Declared, tool: Tool) -> str:
    """Say what the agent's permissions come to; of a server that no agent has, nothing can be."""
    if declared.agent is None:
        return "-"
    return _VERDICTS[declared.agent.policy.verdict(tool.spec.name, tool.capability)]


def _ending(end: ServerEnd) -> str:
    if end.pid is None:
        return "left"
    if end.exit_code is None:
        return f"process {end.pid} could not be ended"
    return f"process {end.pid} ended with {end.exit_code}, by {_BY[end.by]}"


def _plain(declared: Declared, checked: Checked) -> dict[str, Any]:
    status = checked.status
    return {
        "ok": checked.is_ready,
        "server": status.server,
        "agent": declared.agent.name if declared.agent else None,
        "source": declared.source,
        "seconds": round(checked.seconds, 3),
        "era": status.era,
        "about": status.about or None,
        "tools": [
            {
                "name": tool.spec.name,
                "description": tool.spec.description,
                "permission": _verdict(declared, tool),
            }
            for tool in checked.tools
        ],
        "error": status.error or None,
        "stderrTail": status.stderr_tail or None,
        "ended": [{"pid": end.pid, "exit": end.exit_code, "by": end.by} for end in checked.ends],
    }
