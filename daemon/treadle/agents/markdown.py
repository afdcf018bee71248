"""An agent as a Markdown file: front matter and instructions, or instructions alone.

Owns the keys and what each may hold; refuses to know which files there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from treadle.agents import checks, compaction_keys, servers
from treadle.agents.definition import AgentDefinition, SandboxKind
from treadle.agents.front_matter import (
    Entry,
    FrontMatterError,
    decode,
    read_entries,
    split,
    without_last_line_end,
)
from treadle.agents.includes import Shelf, expand
from treadle.agents.skills import skill_names
from treadle.errors import InvalidAgent
from treadle.permissions.modes import MODES
from treadle.tools.builtin import BUILTIN


def parse_agent(
    path: Path, data: bytes, shelf: Shelf | None = None, base: Path | None = None
) -> AgentDefinition:
    """Read an agent's file.

    Args:
        path: where it lies; its stem is the agent's name.
        data: what it holds.
        shelf: where files lie that its instructions include; without one a line that would
            include is text.
        base: the folder that a relative `cwd` starts from; without one it must be absolute.

    Raises:
        InvalidAgent: it cannot be used; the message names the line, the key and what is valid.
    """
    try:
        text = decode(data)
        front_matter, body = split(text)
        fields = _fields(read_entries(front_matter), base)
        first_line = text[: len(text) - len(body)].count("\n") + 1
        instructions = without_last_line_end(body)
        if shelf is not None:
            instructions = expand(instructions, path, first_line, shelf)
    except FrontMatterError as error:
        where = path.name if error.line is None else f"{path.name}, line {error.line}"
        raise InvalidAgent(f"{where}: {error.message}", path=str(path)) from error
    return AgentDefinition(name=path.stem, instructions=instructions, source=str(path), **fields)


_CHECKS: dict[str, checks.Check] = {
    "description": checks.text,
    "model": checks.line,
    "base_url": checks.url,
    "api_key_env": checks.variable,
    "permissions": checks.choice(*MODES),
    "sandbox": checks.choice(*get_args(SandboxKind)),
    "cwd": checks.folder,
    "tools": checks.names(BUILTIN),
    "fetch_allow": checks.hosts,
    "mcp_servers": servers.declared,
    "mcp_allow": servers.allowed,
    "skills": skill_names,
    "max_turns": checks.count,
    "compaction": compaction_keys.declared,
}


def checked(key: str, value: Any) -> Any:
    """Return the value of a key as the definition has it.

    Raises:
        ValueError: there is no such key, or it cannot hold this; what is valid is named.
    """
    if key not in _CHECKS:
        raise ValueError(checks.unknown_key(key, _CHECKS))
    try:
        return _CHECKS[key](value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from error


def check_together(fields: dict[str, Any]) -> None:
    """Set what a `cwd` implies, and see that what is allowed can be there.

    Raises:
        ValueError: it cannot be so.
    """
    if "cwd" in fields and fields.setdefault("sandbox", "local") == "virtual":
        raise ValueError("cwd means nothing in a virtual sandbox; remove one of the two")
    servers.check_allowed(fields.get("mcp_allow", ()), fields.get("mcp_servers", ()))


def _fields(entries: list[Entry], base: Path | None) -> dict[str, Any]:
    """Check every entry; return the fields of the definition."""
    fields: dict[str, Any] = {}
    for entry in entries:
        try:
            fields[entry.key] = checked(entry.key, _from(base, entry))
        except ValueError as error:
            raise FrontMatterError(str(error), entry.line) from error
    try:
        check_together(fields)
    except ValueError as error:
        key = str(error).partition(" ")[0]
        line = next((entry.line for entry in entries if entry.key == key), None)
        raise FrontMatterError(str(error), line) from error
    return fields


def _from(base: Path | None, entry: Entry) -> Any:
    """Return an entry's value; a relative folder as the absolute one that it means."""
    if base is not None and entry.key == "mcp_servers":
        return servers.placed(entry.value, base)
    is_folder = entry.key == "cwd" and isinstance(entry.value, str) and entry.value.strip()
    if base is None or not is_folder or entry.value.startswith("~"):
        return entry.value
    return str(base / entry.value.strip())
