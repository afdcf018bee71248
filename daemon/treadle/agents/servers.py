"""The MCP servers of an agent: those of its own file, and those of `config.toml` that it names.

Owns how a list of them is written, and what becomes of a name. Refuses to know the keys of one
(`server_keys`) and what a server does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treadle.agents import checks, server_keys
from treadle.errors import InvalidAgent
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.naming import (
    NAME_CHARACTERS,
    SERVER_NAME_CHARACTERS,
    is_server_name,
    server_of_tool,
)
from treadle.tools.nearest import did_you_mean

if TYPE_CHECKING:
    from treadle.agents.config import Config
    from treadle.agents.definition import AgentDefinition

Declared: TypeAlias = ServerDeclaration | str
"""A server that an agent has: declared in its own file, or the name of one in `config.toml`."""

# More servers than this is a slip: each is a process.
MOST_SERVERS = 32

# As `naming` makes them.
_TOOL = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARACTERS}}}")


def declared(value: Any) -> tuple[Declared, ...]:
    """Take an agent's servers: names of those in `config.toml`, or what each is by its name."""
    if isinstance(value, list):
        found: list[Declared] = [server_name(name) for name in value]
    elif isinstance(value, dict):
        found = [_declared(server_name(name), table) for name, table in value.items()]
    else:
        raise ValueError(
            "must be a list of servers that config.toml declares, such as [wiki], or a table of "
            f"servers by name, not {checks.shown(value)}"
        )
    names = [name_of(server) for server in found]
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise ValueError(f"names {twice[0]} twice")
    if len(found) > MOST_SERVERS:
        raise ValueError(f"must not name more than {MOST_SERVERS} servers")
    return tuple(found)


def declarations(tables: Mapping[str, Any]) -> tuple[ServerDeclaration, ...]:
    """Take the tables `[mcp_servers.NAME]` of `config.toml`.

    Raises:
        ValueError: one cannot be as it stands.
    """
    return tuple(
        server_keys.declaration(server_name(name), table) for name, table in tables.items()
    )


def server_name(value: Any) -> str:
    """Take a server's name."""
    if not isinstance(value, str) or not is_server_name(value):
        raise ValueError(
            f"needs names of 1 to {SERVER_NAME_CHARACTERS} letters, digits, - and _, without __ "
            f"and with no _ at the end, not {checks.shown(value)}"
        )
    return value


def allowed(value: Any) -> tuple[str, ...]:
    """Take a list of whole names of servers' tools."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list such as [mail__list_threads], not {checks.shown(value)}")
    for number, name in enumerate(value):
        if not isinstance(name, str) or not _TOOL.fullmatch(name) or not server_of_tool(name):
            raise ValueError(
                "needs whole names of tools such as mail__list_threads, not "
                f"{checks.shown(name)}; no pattern, for a server may add what fits it"
            )
        if name in value[:number]:
            raise ValueError(f"names {name} twice")
    return tuple(value)


def check_allowed(names: Sequence[str], servers: Sequence[Declared]) -> None:
    """See that each tool that is allowed may be one of a server's.

    Raises:
        ValueError: one is not; the text begins with the key.
    """
    there = [name_of(server) for server in servers]
    for name in names:
        server = server_of_tool(name)
        if server not in there:
            has = ", ".join(there) or "none"
            raise ValueError(
                f"mcp_allow names {name}, and mcp_servers has no server {server}."
                f"{did_you_mean(server, there)} There are: {has}"
            )


def name_of(server: Declared) -> str:
    """Return a server's name."""
    return server if isinstance(server, str) else server.name


def servers_of(definition: AgentDefinition, config: Config) -> tuple[ServerDeclaration, ...]:
    """Return what an agent's servers are, in its order.

    Raises:
        InvalidAgent: `config.toml` declares none of a name.
    """
    there = {server.name: server for server in config.mcp_servers}
    found: list[ServerDeclaration] = []
    for server in definition.mcp_servers:
        if isinstance(server, str) and server not in there:
            has = ", ".join(there) or "none"
            raise InvalidAgent(
                f"the agent {definition.name} has the MCP server {server}, which config.toml does "
                f"not declare.{did_you_mean(server, there)} There are: {has}; add a table "
                f"[mcp_servers.{server}]",
                path=definition.source,
            )
        found.append(there[server] if isinstance(server, str) else server)
    return tuple(found)


def placed(value: Any, base: Path) -> Any:
    """Return an agent's servers with relative folders and programs as those below a folder."""
    if not isinstance(value, dict):
        return value
    return {name: server_keys.placed(table, base) for name, table in value.items()}


def _declared(name: str, table: Any) -> Declared:
    """Take a server of a table of them; without keys it is one that `config.toml` declares."""
    return name if table is None or table == {} else server_keys.declaration(name, table)
