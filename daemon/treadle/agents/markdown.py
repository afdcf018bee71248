"""An agent as a Markdown file: front matter and instructions, or instructions alone.

Owns the keys and what each may hold; refuses to know which files there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from treadle.agents import checks
from treadle.agents.definition import AgentDefinition, SandboxKind
from treadle.agents.front_matter import Entry, FrontMatterError, read_entries, split
from treadle.errors import InvalidAgent
from treadle.permissions.modes import MODES
from treadle.tools.builtin import BUILTIN


def parse_agent(path: Path, data: bytes) -> AgentDefinition:
    """Read an agent's file.

    Args:
        path: where it lies; its stem is the agent's name.
        data: what it holds.

    Raises:
        InvalidAgent: it cannot be used; the message names the line, the key and what is valid.
    """
    try:
        front_matter, body = split(_decode(data))
        fields = _fields(read_entries(front_matter))
    except FrontMatterError as error:
        where = path.name if error.line is None else f"{path.name}, line {error.line}"
        raise InvalidAgent(f"{where}: {error.message}", path=str(path)) from error
    return AgentDefinition(
        name=path.stem, instructions=_without_last_line_end(body), source=str(path), **fields
    )


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
    "max_turns": checks.count,
}

# Keys of capabilities that are still to come: named, so that nobody believes they work.
_LATER = ("mcp_servers", "mcp_allow", "skills", "compaction")


def _decode(data: bytes) -> str:
    if len(data) > checks.FILE_LIMIT_BYTES:
        raise FrontMatterError(f"the file is larger than {checks.FILE_LIMIT_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FrontMatterError("the file is not UTF-8; save it as UTF-8", line) from error
    if "\0" in text:
        raise FrontMatterError("the file holds a NUL", text[: text.index("\0")].count("\n") + 1)
    return text


def _fields(entries: list[Entry]) -> dict[str, Any]:
    """Check every entry; return the fields of the definition."""
    fields: dict[str, Any] = {}
    for entry in entries:
        if entry.key not in _CHECKS:
            raise FrontMatterError(checks.unknown_key(entry.key, _CHECKS, _LATER), entry.line)
        try:
            fields[entry.key] = _CHECKS[entry.key](entry.value)
        except ValueError as error:
            raise FrontMatterError(f"{entry.key} {error}", entry.line) from error
    if "cwd" in fields and fields.setdefault("sandbox", "local") == "virtual":
        line = next(entry.line for entry in entries if entry.key == "cwd")
        raise FrontMatterError(
            "cwd means nothing in a virtual sandbox; remove one of the two", line
        )
    return fields


def _without_last_line_end(body: str) -> str:
    return body.removesuffix("\n").removesuffix("\r") if body.endswith("\n") else body
