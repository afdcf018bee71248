"""A server's tools as ours: what a model is told of each, what a person is shown, what runs.

Owns how much of what a server says of itself is told on. Refuses to know how it is reached
(`RemoteCall`), and what may be called (`permissions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from treadle.mcp.judging import Judge
from treadle.mcp.remote import RemoteError, RemoteResult, RemoteTool
from treadle.mcp.results import answer_of, is_large
from treadle.models.completion import ToolSpec
from treadle.sanitise import clean_line
from treadle.thread.message import clean, encode_json
from treadle.tools.limits import cut_characters
from treadle.tools.tool import Answer, Handler, Preview, Shown, Tool, ToolContext, ToolError

RemoteCall: TypeAlias = Callable[[str, dict[str, Any], ToolContext], Awaitable[RemoteResult]]
"""Calls a tool by the name that its server has for it.

Contract: raises RemoteError, which becomes the call's result; bounds itself where the tools were
made without a deadline; is cancelled with the call.
"""

# Each request carries every description; what a tool is for is said in far less.
DESCRIPTION_CHARACTERS = 4000

# The same for schemas. A larger one would take a good part of a model's window.
SCHEMA_BYTES = 64 << 10

# A name for people stands in one line with its arguments.
TITLE_CHARACTERS = 100


def as_tools(
    server_name: str,
    remote: Sequence[RemoteTool],
    names: Mapping[str, str],
    call: RemoteCall,
    deadline_seconds: float | None,
) -> list[Tool]:
    """Make tools of a server's.

    Args:
        server_name: the server's name, for people.
        remote: its tools; of those with the same name the first one is taken.
        names: what each is called here, as `naming.tool_names` says.
        call: calls one.
        deadline_seconds: how long one call may take; None where `call` bounds itself.
    """
    first = {tool.name: tool for tool in reversed(remote)}
    distinct = [first[name] for name in dict.fromkeys(tool.name for tool in remote)]
    return [
        Tool(
            _spec(names[tool.name], server_name, tool),
            "mcp",
            _handler(tool.name, call),
            Judge(tool.parameters).read,
            deadline_seconds,
            _preview(server_name, tool),
        )
        for tool in distinct
    ]


def _handler(name: str, call: RemoteCall) -> Handler:
    async def handle(arguments: dict[str, Any], context: ToolContext) -> Answer:
        try:
            result = await call(name, arguments, context)
        except RemoteError as error:
            raise ToolError(error.message) from error
        if is_large(result):
            return await asyncio.to_thread(answer_of, result)
        return answer_of(result)

    return handle


def _spec(name: str, server_name: str, tool: RemoteTool) -> ToolSpec:
    description = clean(tool.description).strip() or clean(tool.title).strip()
    if not description:
        description = f"The tool {clean(tool.name)} of the MCP server {server_name}."
    description = cut_characters(description, DESCRIPTION_CHARACTERS)
    schema = _schema(tool.parameters)
    if schema is None:
        return ToolSpec(name, description + _LEFT_OUT, {"type": "object", "properties": {}})
    return ToolSpec(name, description, schema)


# Said of a tool whose arguments the model has to guess.
_LEFT_OUT = (
    "\n[The schema of its arguments is too large and is left out; if they do not fit, the server "
    "says so.]"
)


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema as every provider takes it: some insist on `properties`, none on a draft.

    Returns:
        None for one that is too large or too deep.
    """
    told = {key: value for key, value in parameters.items() if key != "$schema"}
    try:
        cleaned: dict[str, Any] = clean({"type": "object", "properties": {}, **told})
        return cleaned if len(msgspec.json.encode(cleaned)) <= SCHEMA_BYTES else None
    except RecursionError:
        return None


def _preview(server_name: str, tool: RemoteTool) -> Preview:
    async def show(arguments: dict[str, Any], context: ToolContext) -> Shown:
        given = encode_json(arguments).decode()
        title = _title(tool)
        called = f"{title} ({clean_line(tool.name)})" if title else clean_line(tool.name)
        hints = _hints(tool.annotations)
        says = f"The server says of it, and nobody has checked: {hints}." if hints else ""
        lines = (
            f"Server: {server_name}",
            f"Tool: {called}",
            f"Arguments: {msgspec.json.format(given, indent=2)}",
            says,
        )
        return Shown(f"{server_name}: {called} {given}", "\n".join(filter(None, lines)))

    return show


def _title(tool: RemoteTool) -> str:
    """Return a tool's name for people, if it has one beside its own."""
    said = tool.title or tool.annotations.get("title")
    title = cut_characters(clean_line(said), TITLE_CHARACTERS) if isinstance(said, str) else ""
    return "" if title == tool.name else title


def _hints(annotations: Mapping[str, Any]) -> str:
    """Put into words what a server says of a tool's effects."""
    return ", ".join(
        words[not annotations[key]]
        for key, words in _HINTS.items()
        if isinstance(annotations.get(key), bool)
    )


# MCP's annotations (its schema, `ToolAnnotations`): said where true, and where false.
_HINTS = {
    "readOnlyHint": ("it changes nothing", "it changes something"),
    "destructiveHint": ("it may destroy something", "it destroys nothing"),
    "idempotentHint": ("once is the same as twice", "twice is not the same as once"),
    "openWorldHint": ("it reaches the world outside", "it stays within itself"),
}
