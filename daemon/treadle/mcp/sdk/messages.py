"""JSON-RPC messages of the SDK, from bytes and to bytes, and what a server says, mended.

Owns what is made of messages that are nearly right: one tool with a strange schema must not cost
all the others, and an answer that cannot be read must not be waited for. Refuses to know how bytes
come and go.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

logger = logging.getLogger(__name__)

# Half characters, which JSON can name and no other text can hold.
_HALVES = re.compile("[\ud800-\udfff]")

# What a tool may say of itself; everything else is left out before the SDK judges it.
_TOOL_TEXTS = ("title", "description")
_TOOL_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

# All tools of one list, as JSON: as much as is remembered of a server, and far more than a model is
# ever told. To judge, clean and compare many times that would hold up the whole daemon for seconds.
TOOLS_BYTES = 4 * 1024 * 1024

# Content that the protocol knows.
_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link"})

# Nobody describes arguments that nest further, and the libraries on the way take hardly more.
_SCHEMA_DEPTH = 100

# Python takes no whole number of many more digits; whoever writes one may as well mean infinity.
_DIGITS = 1_000

# How an answer begins and ends that says whose it is: some servers write that first, some last.
_ENDS_BYTES = 512
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_WHOSE = rb'"id"\s*:\s*(0|[1-9]\d{0,17}|"[^"\\\x00-\x1f]{0,100}")\s*'
_WHAT = rb'"(?:result|error)"'
_NUMBER_FIRST = re.compile(
    rb"\{\s*(?:%b,\s*)?%b,\s*(?:%b,\s*)?%b" % (_VERSION, _WHOSE, _VERSION, _WHAT)
)
_CONTENT_FIRST = re.compile(rb"\{\s*(?:%b,\s*)?%b" % (_VERSION, _WHAT))
_NUMBER_LAST = re.compile(rb",\s*%b(?:,\s*%b)?\}\Z" % (_WHOSE, _VERSION))

# Enough to see what a tool wants that describes its arguments in a way that nobody can use.
_SCHEMA_CHARACTERS = 2_000


def read(line: bytes) -> SessionMessage | None:
    """Return the message of a line; None where it holds none."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return _mended(line)


def encode(message: SessionMessage) -> bytes:
    """Return a message as JSON in one line."""
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def whole_characters(value: Any) -> Any:
    """Copy a JSON-like value with a mark in the place of each half character."""
    if isinstance(value, str):
        return value if value.isascii() else _HALVES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(each) for key, each in value.items()}
    return [whole_characters(each) for each in value] if isinstance(value, list) else value


def mend(method: str, result: dict[str, Any]) -> None:
    """Make a result one that the SDK takes, where only a part of it is wrong."""
    if method == "tools/list" and isinstance(tools := result.get("tools"), list):
        result["tools"] = list(_within(TOOLS_BYTES, filter(_is_named, tools)))
    if method == "tools/call" and isinstance(content := result.get("content"), list):
        result["content"] = [_block(block) for block in content]
    if method == "tools/call" and "structuredContent" in result:
        result.setdefault("content", [])


def _mended(line: bytes) -> SessionMessage | None:
    try:
        text = line.decode(errors="replace")
        found = whole_characters(json.loads(text, parse_int=_whole_number))
    except (ValueError, RecursionError):
        return _unreadable({"id": _whose(line)})
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(found, by_name=False))
    except ValueError:
        return _unreadable(found)


def _unreadable(found: dict[str, Any]) -> SessionMessage | None:
    """Make an error of an answer that is none, so that nobody waits for it any longer."""
    number = found.get("id")
    if "method" in found or isinstance(number, bool) or not isinstance(number, int | str):
        return None
    error = ErrorData(code=PARSE_ERROR, message="its answer is none that the protocol knows")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))


def _whole_number(digits: str) -> float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _whose(line: bytes) -> int | str | None:
    """Return the number of an answer that cannot be read, where its beginning or end tells it."""
    first, last = line[:_ENDS_BYTES], line[-_ENDS_BYTES:]
    found = _NUMBER_FIRST.match(first)
    if found is None and _CONTENT_FIRST.match(first):
        found = _NUMBER_LAST.search(last)
    number: int | str | None = json.loads(found[1].decode(errors="replace")) if found else None
    return number


def _is_named(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _within(most_bytes: int, tools: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Mend tools until so much of them is together."""
    for tool in tools:
        mended = _tool(tool)
        most_bytes -= len(msgspec.json.encode(mended))
        if most_bytes < 0:
            logger.warning("an MCP server lists tools without end; the first ones are taken")
            return
        yield mended


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    mended: dict[str, Any] = {
        "name": tool["name"],
        "inputSchema": _object_schema(tool.get("inputSchema")),
    }
    mended |= {key: tool[key] for key in _TOOL_TEXTS if isinstance(tool.get(key), str)}
    output = tool.get("outputSchema")
    if isinstance(output, dict) and output.get("type") == "object" and not _is_deep(output):
        mended["outputSchema"] = output
    if isinstance(told := tool.get("annotations"), dict):
        hints = {key: told[key] for key in _TOOL_HINTS if isinstance(told.get(key), bool)}
        if isinstance(told.get("title"), str):
            hints["title"] = told["title"]
        mended["annotations"] = hints
    return mended


def _object_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of an object, and of what the server said as much as can be kept."""
    if not isinstance(schema, dict):
        return {"type": "object"}
    if _is_deep(schema):
        return {"type": "object", "description": "The server's schema nests too deep to be told."}
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        said = json.dumps(schema, ensure_ascii=False)[:_SCHEMA_CHARACTERS]
        return {"type": "object", "description": f"The server says of the arguments: {said}"}
    mended = {**schema, "type": "object"}
    if not isinstance(mended.get("properties", {}), dict):
        del mended["properties"]
    required = mended.get("required", [])
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        del mended["required"]
    return mended


def _is_deep(schema: dict[str, Any]) -> bool:
    level: list[Any] = [schema]
    for _ in range(_SCHEMA_DEPTH):
        level = [
            each
            for part in level
            if isinstance(part, dict | list)
            for each in (part.values() if isinstance(part, dict) else part)
        ]
        if not level:
            return False
    return True


def _block(block: Any) -> Any:
    """Return a block of content; one of an unknown kind as the text that it is."""
    if isinstance(block, dict) and block.get("type") in _BLOCKS:
        return block
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}
