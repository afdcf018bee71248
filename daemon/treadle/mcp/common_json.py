"""The JSON in which other programs keep their MCP servers, read as declarations of ours.

Those are `{"mcpServers": {…}}` and, where an editor has it, `{"servers": {…}}`; comments and commas
too many are taken. Owns what of it means something here; whatever does not is told, never dropped
in silence. Refuses to know what a declaration may hold, and where it is kept. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from treadle.errors import ConfigurationError
from treadle.mcp.naming import is_server_name, server_name_like
from treadle.mcp.sensitive import looks_secret
from treadle.tools.nearest import did_you_mean

# Some programs keep all that they know in the same file, such as every project that they saw.
LIMIT_BYTES = 4 * 1024 * 1024

_ROOTS = ("mcpServers", "servers")

# What means the same here under another name.
_SAME = {"serverUrl": "url", "httpUrl": "url"}
_TAKEN = ("command", "args", "env", "cwd", "url", "headers", "type", "transport", "tools")
# What permits tools elsewhere; here a person names each.
_PERMITTING = ("alwaysAllow", "autoApprove", "trust")

# Strings, so that nothing in them is taken for something else, and comments up to their ends.
_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)

# How keys of well-known services begin.
_KEY = re.compile(r"\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|eyJ)[\w-]{8,}")
# Shorter than any key.
_KEY_CHARACTERS = 8

# `${env:NAME}` is how editors write a variable.
_ENVIRONMENT = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = "${input:"
# What an editor puts in by itself, and nobody else does.
_EDITORS = re.compile(r"\$\{(?:workspaceFolder|workspaceFolderBasename|pathSeparator)\}")


@dataclass(frozen=True, slots=True)
class Found:
    """What such a file declares.

    Args:
        tables: the keys of each server, as `config.toml` has them, by its name here.
        notices: what is otherwise than in the file, and what to look at; without values.
    """

    tables: Mapping[str, dict[str, Any]]
    notices: tuple[str, ...]


def read_servers(data: bytes, only: Collection[str] = ()) -> Found:
    """Read the servers of such a file.

    Args:
        data: what it holds.
        only: the names, as the file has them, of those that are wanted; without any, all.

    Raises:
        ConfigurationError: it is none, or one of the servers cannot be taken; it says why.
    """
    servers = _servers(_json(data))
    for name in only:
        if name not in servers:
            raise ConfigurationError(
                f"there is no server {name!r} in it.{did_you_mean(name, servers)} "
                f"There are: {', '.join(servers) or 'none'}"
            )
    tables: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    for name, given in servers.items():
        if only and name not in only:
            continue
        if not isinstance(given, dict):
            raise ConfigurationError(f"the server {name!r} must be an object with its keys")
        if given.get("disabled") is True or given.get("enabled") is False:
            notices.append(f"{name}: left out, for it is disabled there")
            continue
        ours = _name(name, tables)
        notices += [f"{name!r} is called {ours} here"] if ours != name else []
        tables[ours], told = _table(name, given)
        notices += (f"{ours}: {each}" for each in told)
    return Found(tables, tuple(notices))


def _json(data: bytes) -> Any:
    if len(data) > LIMIT_BYTES:
        raise ConfigurationError(f"the file is larger than {LIMIT_BYTES // 1024**2} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError("the file is not UTF-8; save it as UTF-8") from error
    try:
        return json.loads(_plain(text))
    except RecursionError as error:
        raise ConfigurationError("the file is nested too deeply") from error
    except ValueError as error:
        raise ConfigurationError(f"the file is no JSON: {error}") from error


def _plain(text: str) -> str:
    """Blank out comments, and commas before a closing bracket; every line keeps its number."""
    for pattern in (_COMMENT, _COMMA):
        text = pattern.sub(_blank_unless_string, text)
    return text


def _blank_unless_string(found: re.Match[str]) -> str:
    said = found[0]
    return said if said.startswith('"') else re.sub(r"[^\n]", " ", said)


def _servers(root: Any) -> dict[str, Any]:
    for name in _ROOTS:
        if isinstance(root, dict) and isinstance(root.get(name), dict):
            servers: dict[str, Any] = root[name]
            return servers
    raise ConfigurationError(
        'the file declares no MCP servers: they are the members of {"mcpServers": {…}}, or of '
        '{"servers": {…}}'
    )


def _name(name: str, taken: Collection[str]) -> str:
    ours = name if is_server_name(name) else server_name_like(name)
    if not ours:
        raise ConfigurationError(f"{name!r} has no letter that a server's name may have; rename it")
    if ours in taken:
        raise ConfigurationError(f"two servers would be called {ours} here; rename one of them")
    return ours


def _table(name: str, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a server's keys as ours, and what is to be told of it."""
    table: dict[str, Any] = {}
    notices: list[str] = []
    for theirs, value in given.items():
        key = _SAME.get(theirs, theirs)
        if value is None:
            continue
        if key in _TAKEN:
            table[key] = _value(name, value)
            notices += [f"{key}{where}: {said}" for where, said in _looked_at(key, table[key])]
        elif theirs in _PERMITTING:
            notices.append(f"{theirs} is left out; name tools in an agent's mcp_allow instead")
        elif theirs not in ("disabled", "enabled"):
            notices.append(f"{theirs} is left out, for it means nothing here")
    return {key: table[key] for key in _TAKEN if key in table}, notices


def _value(name: str, value: Any) -> Any:
    """Return a value of theirs as ours: numbers as text, an editor's variables as plain ones."""
    if isinstance(value, dict):
        return {key: _text(name, each) for key, each in value.items()}
    return [_text(name, each) for each in value] if isinstance(value, list) else _text(name, value)


def _text(name: str, value: Any) -> Any:
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and _INPUT in value:
        raise ConfigurationError(
            f"the server {name!r} has ${{input:…}}, for which only that editor asks; write "
            "${NAME} there, a variable of the environment, or leave the server out with --name"
        )
    return _ENVIRONMENT.sub(r"${\1}", value) if isinstance(value, str) else value


def _looked_at(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield where something is that a person should look at, and why."""
    named: list[tuple[str, Any]] = [("", value)]
    if isinstance(value, dict):
        named = [(f" {name}", each) for name, each in value.items()]
    elif isinstance(value, list):
        named = [("", each) for each in value]
    for where, each in named:
        if not isinstance(each, str):
            continue
        if _EDITORS.search(each):
            yield where, "only an editor knows that ${…}; write the path instead"
        is_called_so = key in ("env", "headers") and _is_key(where, each)
        if is_called_so or _KEY.search(each):
            yield where, "holds what looks like a key; put it into a variable and write ${NAME}"


def _is_key(name: str, value: str) -> bool:
    is_called_so = looks_secret(name) or name.strip().lower() == "authorization"
    return is_called_so and "${" not in value and len(value) >= _KEY_CHARACTERS
