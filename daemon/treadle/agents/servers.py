"""MCP servers as agent files and `config.toml` write them, and those that an agent has.

Owns the keys of a declaration and what each may hold. Refuses to know what a server is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from treadle.agents import checks
from treadle.errors import InvalidAgent
from treadle.mcp.declaration import MOST_STOP_SECONDS, Begin, Scope, ServerDeclaration
from treadle.tools.nearest import did_you_mean

if TYPE_CHECKING:
    from treadle.agents.config import Config
    from treadle.agents.definition import AgentDefinition

Declared: TypeAlias = ServerDeclaration | str
"""A server that an agent has: declared in its own file, or the name of one in `config.toml`."""

# Its tools' names begin with it and have 64 characters at most. A `__` would end it too early.
_NAME = re.compile(r"(?=[A-Za-z0-9_-]{1,32}\Z)[A-Za-z0-9](?:_?[A-Za-z0-9-]+)*")

# More servers than this is a slip: each is a process.
MOST_SERVERS = 32

_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")


def declared(value: Any) -> tuple[Declared, ...]:
    """Take an agent's servers: names of those in `config.toml`, or what each is by its name."""
    if isinstance(value, list):
        found: list[Declared] = [server_name(name) for name in value]
    elif isinstance(value, dict):
        found = [
            server_name(name) if not table else declaration(server_name(name), table)
            for name, table in value.items()
        ]
    else:
        raise ValueError(
            f"must be a list of servers of config.toml, or a table of them, not "
            f"{checks.shown(value)}"
        )
    names = [name_of(one) for one in found]
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise ValueError(f"names {twice[0]} twice")
    if len(found) > MOST_SERVERS:
        raise ValueError(f"must not name more than {MOST_SERVERS} servers")
    return tuple(found)


def declarations(tables: Mapping[str, Any]) -> tuple[ServerDeclaration, ...]:
    """Take the tables `[mcp_servers.NAME]` of `config.toml`."""
    return tuple(declaration(server_name(name), table) for name, table in tables.items())


def server_name(value: Any) -> str:
    """Take a server's name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            "needs names of 1 to 32 letters, digits, - and single _, not beginning or ending with "
            f"_, not {checks.shown(value)}"
        )
    return value


def allowed(value: Any) -> tuple[str, ...]:
    """Take a list of whole names of servers' tools."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list such as [mail__list_threads], not {checks.shown(value)}")
    for name in value:
        if not isinstance(name, str) or not _ALLOWED.fullmatch(name) or "__" not in name:
            raise ValueError(
                "needs whole names of tools such as mail__list_threads, not "
                f"{checks.shown(name)}; no pattern, for a server may add what it fits"
            )
    return tuple(dict.fromkeys(value))


def check_allowed(names: Sequence[str], servers: Sequence[Declared]) -> None:
    """See that each tool that is allowed may be one of a server's.

    Raises:
        ValueError: one is not.
    """
    there = [name_of(one) for one in servers]
    for name in names:
        server = name.partition("__")[0]
        if server not in there:
            has = ", ".join(there) or "none"
            raise ValueError(
                f"mcp_allow names {name}, and mcp_servers has no {server}."
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
    there = {one.name: one for one in config.mcp_servers}
    found: list[ServerDeclaration] = []
    for one in definition.mcp_servers:
        if isinstance(one, str) and one not in there:
            has = ", ".join(there) or "none"
            raise InvalidAgent(
                f"the agent {definition.name} has the MCP server {one}, which config.toml does not "
                f"declare.{did_you_mean(one, there)} There are: {has}; add a table "
                f"[mcp_servers.{one}]",
                path=definition.source,
            )
        found.append(there[one] if isinstance(one, str) else one)
    return tuple(found)


def placed(table: Any, base: Path) -> Any:
    """Return an agent's servers with relative folders and programs as those below a folder."""
    if not isinstance(table, dict):
        return table
    return {name: _placed(one, base) for name, one in table.items()}


def declaration(name: str, table: Any) -> ServerDeclaration:
    """Take one server's table.

    Raises:
        ValueError: it cannot be as it stands; the text begins with the server's name.
    """
    try:
        return ServerDeclaration(name, **_fields(table))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _fields(table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"must be a table with a command or a url, not {checks.shown(table)}")
    known = {**_PROGRAM, **_ADDRESS, **_EITHER, "type": _type}
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise ValueError(checks.unknown_key(str(key), known))
        try:
            fields[_FIELDS.get(str(key), str(key))] = known[key](value)
        except ValueError as error:
            raise ValueError(f"{key} {error}") from error
    if ("command" in table) == ("url" in table):
        raise ValueError("needs either command, a program, or url, an address")
    own, others = (_PROGRAM, _ADDRESS) if "command" in table else (_ADDRESS, _PROGRAM)
    if wrong := [key for key in table if key in others]:
        kind = "command" if own is _PROGRAM else "url"
        raise ValueError(f"{wrong[0]} means nothing beside {kind}; remove one of the two")
    fields.setdefault("transport", "stdio" if own is _PROGRAM else "http")
    if (fields["transport"] == "stdio") != (own is _PROGRAM):
        raise ValueError("type does not fit: stdio is for a command, http and sse are for a url")
    return fields


def _placed(table: Any, base: Path) -> Any:
    if not isinstance(table, dict):
        return table
    found = dict(table)
    for key in ("command", "cwd"):
        value = found.get(key)
        if isinstance(value, str) and _is_relative(value) and (key == "cwd" or "/" in value):
            found[key] = str(base / value)
    return found


def _is_relative(value: str) -> bool:
    return bool(value) and not value.startswith(("~", "${")) and not Path(value).is_absolute()


def _program(value: Any) -> str:
    said = checks.line(value)
    if ("/" in said or "\\" in said) and _is_relative(said):
        raise ValueError(
            f"must be a program's name or its whole path, not {checks.shown(said)}; its arguments "
            "belong in args"
        )
    return said


def _folder(value: Any) -> str:
    said = checks.line(value)
    if _is_relative(said):
        raise ValueError(
            f"must be an absolute path or begin with ~/ or ${{, not {checks.shown(said)}"
        )
    return said


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list, not {checks.shown(value)}")
    return tuple(_word(one) for one in value)


def _word(value: Any) -> str:
    """Take text, or a number, which YAML makes of digits."""
    if type(value) in (int, float):
        return str(value)
    said = checks.text(value)
    if "\0" in said:
        raise ValueError("must not hold the character NUL")
    return said


def _variables(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of variables, not {checks.shown(value)}")
    return tuple((checks.variable(name), _word(said)) for name, said in value.items())


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of headers, not {checks.shown(value)}")
    found = tuple((checks.header(name), _word(said)) for name, said in value.items())
    for name, said in found:
        # What it holds may be a key, so it is not shown.
        if not said.isascii() or not said.isprintable():
            raise ValueError(f"{name} must hold printable ASCII on one line")
    return found


def _address(value: Any) -> str:
    said = checks.line(value)
    if "@" in said.partition("?")[0]:
        raise ValueError("must hold no user name or password; name a variable in token_env")
    return said if said.startswith("${") else checks.url(said)


def _patterns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of tools' names, not {checks.shown(value)}")
    return tuple(checks.line(one) for one in value)


def _stop(value: Any) -> float:
    if (taken := checks.seconds(value)) > MOST_STOP_SECONDS:
        raise ValueError(f"must be at most {MOST_STOP_SECONDS:g}, not {checks.shown(value)}")
    return taken


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {checks.shown(value)}")
    return value


def _type(value: Any) -> str:
    """Take the kind of a server as other programs' files call it."""
    said = checks.choice("stdio", "http", "streamable-http", "streamableHttp", "sse")(value)
    return "http" if said.startswith("streamable") else said


_PROGRAM: dict[str, checks.Check] = {
    "command": _program,
    "args": _words,
    "env": _variables,
    "cwd": _folder,
}
_ADDRESS: dict[str, checks.Check] = {
    "url": _address,
    "headers": _headers,
    "token_env": checks.variable,
    "transport": checks.choice("http", "sse"),
}
_EITHER: dict[str, checks.Check] = {
    "tools": _patterns,
    "scope": checks.choice(*get_args(Scope)),
    "start": checks.choice(*get_args(Begin)),
    "start_seconds": checks.seconds,
    "call_seconds": checks.seconds,
    "stop_seconds": _stop,
    "sampling": _truth,
}
_FIELDS = {"start": "begin", "type": "transport"}
