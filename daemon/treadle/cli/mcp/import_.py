"""`treadle mcp import`: servers that another program declares, as tables of `config.toml`.

Owns what is written and told. What a person wrote stays byte for byte; what is added was read as
configuration before it takes the file's place. Refuses to know what other programs write.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.agents.config import CONFIG_NAME, Config, parse_config
from treadle.agents.server_keys import placed
from treadle.agents.servers import declarations
from treadle.cli.streams import say, tell
from treadle.errors import ConfigurationError, InvalidAgent
from treadle.folders import find_folders
from treadle.mcp.common_json import LIMIT_BYTES, read_servers
from treadle.thread.files import make_folder, open_existing, sync_folder

# Where editors keep such a file for the project that it lies in.
_EDITORS_FOLDERS = frozenset({".vscode", ".cursor"})


def import_(
    file: Annotated[
        Path, typer.Argument(help="JSON with mcpServers, such as a project's .mcp.json.")
    ],
    names: Annotated[
        list[str] | None, typer.Option("--name", help="Only this server; may be given again.")
    ] = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the tables and write nothing.")
    ] = False,
) -> None:
    """Declare another program's MCP servers in config.toml.

    No agent has one of them before its file names it. Nothing that config.toml says is changed.
    """
    found = read_servers(_read(file), names or ())
    for notice in found.notices:
        tell(f"treadle: {notice}")
    tables = {name: placed(table, _base(file)) for name, table in found.tables.items()}
    if not tables:
        raise ConfigurationError(f"{file} declares no server that can be imported")
    try:
        declarations(tables)
    except ValueError as error:
        raise ConfigurationError(
            f"{file}: {error}; mend it there, or name the others with --name"
        ) from error
    if print_:
        say(_toml(tables), end="")
        return
    path = find_folders().config / CONFIG_NAME
    _add(path, tables)
    say(f"added to {path}: {', '.join(tables)}")
    say(f"an agent has them with this line in its file: mcp_servers: [{', '.join(tables)}]")


def _read(file: Path) -> bytes:
    """Return what a file holds, one byte beyond what is taken at most."""
    try:
        with os.fdopen(open_existing(file, os.O_RDONLY), "rb") as opened:
            return opened.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror or error}") from error


def _base(file: Path) -> Path:
    """Return the folder from which the programs that a file names are looked for."""
    folder = Path(os.path.realpath(file)).parent
    return folder.parent if folder.name in _EDITORS_FOLDERS else folder


def _add(path: Path, tables: Mapping[str, dict[str, Any]]) -> None:
    """Add servers at the end of the configuration.

    Raises:
        ConfigurationError: it declares one of them, or cannot have them added; it stays as it is.
        InvalidAgent: it is broken as it is.
    """
    # A person may keep the file elsewhere and have a link to it here.
    real = Path(os.path.realpath(path))
    before = _read(real) if real.exists() else b""
    config = parse_config(path, before)
    for server in config.mcp_servers:
        if server.name in tables:
            raise ConfigurationError(
                f"{path} declares {server.name} already; remove [mcp_servers.{server.name}] there, "
                "or name the others with --name"
            )
    gap = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
    after = before + gap + _toml(tables).encode()
    _check(path, after, config, tables)
    _replace(real, before, after)


def _check(path: Path, data: bytes, config: Config, tables: Mapping[str, dict[str, Any]]) -> None:
    """See that the new file says what the old one did, and the new servers.

    Raises:
        ConfigurationError: it does not.
    """
    wanted = replace(config, mcp_servers=(*config.mcp_servers, *declarations(tables)))
    try:
        is_right = parse_config(path, data) == wanted
        why = "they would be read as something else"
    except InvalidAgent as error:
        is_right, why = False, error.message
    if not is_right:
        raise ConfigurationError(
            f"the tables cannot be added to {path}: {why}; print them with --print, and put them "
            "where they belong"
        )


def _replace(path: Path, before: bytes, data: bytes) -> None:
    """Put a private file in a file's place, at once or not at all.

    Raises:
        ConfigurationError: somebody has written the file meanwhile.
        OSError: it cannot be written.
    """
    make_folder(path.parent)
    # Such a file is made 0600.
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if (_read(path) if path.exists() else b"") != before:
            raise ConfigurationError(f"{path} was changed meanwhile; run this again")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)


def _toml(tables: Mapping[str, dict[str, Any]]) -> str:
    """Write servers as tables of `config.toml`."""
    return "\n".join(_table(f"mcp_servers.{name}", table) for name, table in tables.items())


def _table(name: str, table: dict[str, Any]) -> str:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in plain.items())]
    below = [
        _table(f"{name}.{key}", value)
        for key, value in table.items()
        if isinstance(value, dict) and value
    ]
    return "\n".join([*lines, *(each.removesuffix("\n") for each in below), ""])


def _key(key: str) -> str:
    is_bare = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()
    return key if is_bare else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # JSON's text is TOML's but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
