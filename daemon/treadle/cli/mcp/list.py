"""`treadle mcp list`: the servers that are declared, where, and whether they can be found.

Starts none of them; `treadle mcp check` does.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from treadle.cli.chat import wording
from treadle.cli.mcp.declared import Declared, declared_servers, trouble
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, to_json
from treadle.folders import find_folders
from treadle.mcp.declaration import ServerDeclaration
from treadle.secrets import known

# A line or two of a terminal; a script in the arguments is not read here.
ADDRESS_CHARACTERS = 160


def list_servers(
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Only those of this agent.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the MCP servers that agents and config.toml declare; none is started."""
    found = asyncio.run(_looked_for(declared_servers(find_folders(), agent)))
    if as_json:
        print(to_json({"servers": [_plain(each, problem) for each, problem in found]}))
        return
    if not found:
        say("no MCP servers are declared")
    for each, problem in found:
        shown = wording.shorten(" ".join(address(each.server).split()), ADDRESS_CHARACTERS)
        say(f"{each.where}  {each.server.transport}  {shown}")
        say(f"  {'problem: ' + problem if problem else 'found'}  ({each.source})")


async def _looked_for(servers: Sequence[Declared]) -> list[tuple[Declared, str]]:
    return [(each, await trouble(each)) for each in servers]


def address(server: ServerDeclaration) -> str:
    """Show where a server is: the command or the url, as it is declared, without secrets."""
    words = [server.command or "", *server.args] if server.url is None else [server.url]
    return known().redact(" ".join(shlex.quote(word) if " " in word else word for word in words))


def _plain(declared: Declared, problem: str) -> dict[str, Any]:
    server = declared.server
    return {
        "server": server.name,
        "agent": declared.agent.name if declared.agent else None,
        "source": declared.source,
        "transport": server.transport,
        "address": address(server),
        "scope": server.scope,
        "start": server.begin,
        "found": not problem,
        "problem": problem or None,
    }
