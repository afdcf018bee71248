"""The keys of one MCP server's declaration, wherever it is written, and what each may hold.

Owns that. Refuses to know which servers there are, and what becomes of a declaration.
What may hold a key or a token is never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

from treadle.agents import checks
from treadle.mcp.declaration import MOST_STOP_SECONDS, Begin, Scope, ServerDeclaration
from treadle.mcp.expansion import check_text, without_variables
from treadle.models.spec import is_endpoint

Pairs: TypeAlias = tuple[tuple[str, str], ...]

# A kernel takes a hundred thousand; nobody writes so many by hand.
MOST_WORDS = 1000

# A name of a field as RFC 9110 has it (5.6.2), not longer than any in use.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")

# What HTTP itself says with every request; said twice, a request means two things.
_OF_HTTP = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})


def declaration(name: str, table: Any) -> ServerDeclaration:
    """Take what a server is.

    Args:
        name: the server's, checked.
        table: its keys.

    Raises:
        ValueError: it cannot be as it stands; the text names the server and the key.
    """
    try:
        return ServerDeclaration(name, **_fields(table))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def placed(table: Any, base: Path) -> Any:
    """Return a server's table with a relative program or folder as the one below `base`.

    A word without a slash is a program's name, and is looked for on the PATH. What is no table,
    or holds anything else, is left for `declaration` to refuse.
    """
    if not isinstance(table, dict):
        return table
    found = dict(table)
    for key in ("command", "cwd"):
        value = found.get(key)
        if isinstance(value, str) and _is_relative(value) and (key == "cwd" or _is_path(value)):
            found[key] = str(base / value)
    return found


def _fields(table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"must be a table with a command or a url, not {checks.shown(table)}")
    fields: dict[str, Any] = {}
    for key, value in table.items():
        taken = _checked(key, value)
        fields[_FIELDS.get(key) or key] = taken
    if ("command" in table) == ("url" in table):
        raise ValueError("needs either command, a program, or url, an address")
    is_program = "command" in table
    for key in _ADDRESS if is_program else _PROGRAM:
        if key in table:
            raise ValueError(
                f"{key} means nothing beside {'command' if is_program else 'url'}; remove one of "
                "the two"
            )
    fields["transport"] = _transport(table, is_program=is_program)
    if "token_env" in table and any(
        name.lower() == "authorization" for name, _ in fields.get("headers", ())
    ):
        raise ValueError("has both token_env and a header Authorization; remove one of the two")
    return fields


def _checked(key: Any, value: Any) -> Any:
    if key not in _KEYS:
        raise ValueError(checks.unknown_key(str(key), _KEYS))
    try:
        return _KEYS[key](value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from error


def _transport(table: Mapping[str, Any], *, is_program: bool) -> str:
    """Return how a server is spoken with, by `transport`, by `type`, or as most are."""
    if "type" in table and "transport" in table:
        raise ValueError("has both type and transport, which say the same; remove one of the two")
    said = _kind(table["type"]) if "type" in table else table.get("transport")
    if said is not None and (said == "stdio") != is_program:
        raise ValueError(
            f"type {said} does not fit: stdio is for a command, http and sse are for a url"
        )
    return said or ("stdio" if is_program else "http")


def _kind(value: Any) -> str:
    """Take a server's kind in the words of other programs' files."""
    said = checks.choice("stdio", "http", "sse", "streamable-http", "streamableHttp")(value)
    return "http" if said.startswith("streamable") else said


def _line(value: Any) -> str:
    said = checks.line(value)
    check_text(said)
    return said


def _program(value: Any) -> str:
    said = _line(value)
    if _is_path(said) and _is_relative(said):
        raise ValueError(
            "must be a program's name, an absolute path, or begin with ~/, not "
            f"{checks.shown(said)}; arguments belong in args"
        )
    return said


def _folder(value: Any) -> str:
    said = _line(value)
    if _is_relative(said):
        raise ValueError(f"must be an absolute path or begin with ~/, not {checks.shown(said)}")
    return said


def _is_path(value: str) -> bool:
    return "/" in value or "\\" in value


def _is_relative(value: str) -> bool:
    """Tell whether a path begins nowhere; one that begins with a variable is seen at its start."""
    return bool(value) and not value.startswith(("~", "${")) and not Path(value).is_absolute()


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_WORDS:
        raise ValueError(
            f"must be a list such as [--port, '80'], of {MOST_WORDS} words at most, "
            f"not {checks.shown(value)}"
        )
    return tuple(_unshown(word, f"word {number}") for number, word in enumerate(value, 1))


def _pairs(what: str, check_name: Callable[[Any], str]) -> checks.Check:
    """Make a check that takes a table of texts by name."""

    def check(value: Any) -> Pairs:
        if not isinstance(value, dict):
            raise ValueError(f"must be a table of {what}, not {checks.shown(value)}")
        return tuple((check_name(name), _unshown(said, name)) for name, said in value.items())

    return check


def _unshown(value: Any, where: str) -> str:
    """Take a text that may be a key, or may have one in it, so that it is not repeated."""
    # YAML takes 0755, 22:22 and 1.10 for other numbers than were meant.
    if not isinstance(value, str):
        raise ValueError(f"has {where}, which must be text; put it in quotes")
    said = checks.text(value)
    if "\0" in said:
        raise ValueError(f"has {where}, which must not hold the character NUL")
    try:
        check_text(said)
    except ValueError as error:
        raise ValueError(f"has {where}, which {error}") from error
    return said


def _headers(value: Any) -> Pairs:
    taken: Pairs = _pairs("headers", _header)(value)
    names: list[str] = []
    for name, said in taken:
        if not said.isascii() or not said.isprintable():
            raise ValueError(f"has {name}, which must be printable ASCII on one line")
        if name.lower() in names:
            raise ValueError(f"names {name} twice")
        names.append(name.lower())
    return taken


def _header(value: Any) -> str:
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise ValueError(
            "must name HTTP headers, such as X-Api-Key, and what each holds, never have a key for "
            "a name"
        )
    if value.lower() in _OF_HTTP:
        raise ValueError(f"must not hold {value}, which HTTP itself says")
    return value


def _address(value: Any) -> str:
    """Take an address; where it has variables, one that they may well make of it."""
    said = _line(value)
    shape = without_variables(said)
    if _has_user(shape):
        raise ValueError("must hold no user name or password; name a variable in token_env")
    if not said.startswith("${") and not is_endpoint(shape):
        raise ValueError(f"must be an http:// or https:// address, not {checks.shown(value)}")
    return said


def _has_user(address: str) -> bool:
    from urllib.parse import urlsplit

    try:
        return "@" in urlsplit(address).netloc
    except ValueError:
        return "@" in address


def _patterns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list such as [search, 'read_*'], not {checks.shown(value)}")
    return tuple(checks.line(name) for name in value)


def _stop_seconds(value: Any) -> float:
    if (taken := checks.seconds(value)) > MOST_STOP_SECONDS:
        raise ValueError(f"must be at most {MOST_STOP_SECONDS:g}, not {checks.shown(value)}")
    return taken


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {checks.shown(value)}")
    return value


_PROGRAM: dict[str, checks.Check] = {
    "command": _program,
    "args": _words,
    "env": _pairs("environment variables", checks.variable),
    "cwd": _folder,
}
_ADDRESS: dict[str, checks.Check] = {
    "url": _address,
    "headers": _headers,
    "token_env": checks.variable,
    "transport": checks.choice("http", "sse"),
}
_KEYS: dict[str, checks.Check] = {
    **_PROGRAM,
    **_ADDRESS,
    "type": _kind,
    "tools": _patterns,
    "scope": checks.choice(*get_args(Scope)),
    "start": checks.choice(*get_args(Begin)),
    "start_seconds": checks.seconds,
    "call_seconds": checks.seconds,
    "stop_seconds": _stop_seconds,
    "sampling": _truth,
}
# Where a field is called otherwise than its key.
_FIELDS: dict[str, str] = {"start": "begin", "type": "transport"}
