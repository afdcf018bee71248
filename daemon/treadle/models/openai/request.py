"""Messages as a request's bytes, each message encoded once.

Owns the provider's form of a message. Refuses to know how bytes are sent.
The same conversation gives the same bytes, so that providers' prompt caches hit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from treadle.models.attachments import in_words
from treadle.models.completion import ToolSpec
from treadle.models.openai.attachments import Notes
from treadle.models.openai.parts import content_of
from treadle.thread.blobs import Blobs
from treadle.thread.message import Message, ToolCall, clean

# What every provider takes in the name of a function, in a call of old as in a tool.
_NAME_CHARACTERS = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

# Usage is not sent with a stream unless it is asked for.
_TAIL = b',"stream":true,"stream_options":{"include_usage":true}}'


def encode_message(message: Message, content: str | list[dict[str, Any]] | None = None) -> bytes:
    """Encode one message as a provider wants it; empty for one that says nothing.

    Args:
        message: the message.
        content: what stands for its content; else that is put into words.
    """
    plain: dict[str, Any]
    if content is not None:
        plain = {"content": content}
    elif message.role == "tool":
        plain = {"tool_call_id": message.tool_call_id, "content": in_words(message.content)}
    elif message.role != "assistant":
        plain = {"content": in_words(message.content)}
    elif message.tool_calls:
        calls = [_call(call) for call in message.tool_calls]
        plain = {"content": in_words(message.content) or None, "tool_calls": calls}
    elif message.content:
        plain = {"content": in_words(message.content)}
    else:
        return b""
    return _encode({"role": message.role, **plain})


class HistoryEncoder:
    """Encodes requests of one conversation; what an earlier request held is not encoded again.

    Messages never change, so one is known by its identity. What has left the conversation is
    forgotten at the next request.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, Notes, bytes]] = {}
        self._tools: list[ToolSpec] = []
        self._tools_bytes = b""

    async def attach(
        self, messages: Sequence[Message], plan: Mapping[int, Notes], blobs: Blobs
    ) -> None:
        """Encode the messages that refer to bytes, for the requests that follow.

        Those are read and encoded in a worker thread, and again only when something else of them
        is to be shown.

        Args:
            messages: the conversation.
            plan: what is shown of each, as `Attachments.plan` gives it.
            blobs: where the bytes are.
        """
        for message in messages:
            notes = plan.get(id(message))
            known = self._known.get(id(message))
            if notes is None or (known is not None and known[1] == notes):
                continue
            encoded = await asyncio.to_thread(_encode_attached, message, notes, blobs)
            self._known[id(message)] = (message, notes, encoded)

    def request(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> bytes:
        """Return the body of a streaming request."""
        parts = [b'{"model":', _encode(model), b',"messages":[', self._messages(messages), b"]"]
        if tools:
            parts += [b',"tools":', self._encoded_tools(tools)]
        return b"".join((*parts, _TAIL))

    def _messages(self, messages: Sequence[Message]) -> bytes:
        before, now = self._known, {}
        for message in messages:
            # The message is kept beside its bytes, so that its identity is not given away.
            now[id(message)] = before.get(id(message)) or (message, (), encode_message(message))
        self._known = now
        return b",".join(filter(None, (now[id(message)][2] for message in messages)))

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        if self._tools != list(tools):
            self._tools = list(tools)
            self._tools_bytes = _encode([_tool(spec) for spec in tools])
        return self._tools_bytes


def _encode_attached(message: Message, notes: Notes, blobs: Blobs) -> bytes:
    return encode_message(message, content_of(message, notes, blobs))


def _call(call: ToolCall) -> dict[str, Any]:
    """A call as it goes back: its arguments are always an object, its name one providers take."""
    name = _NOT_IN_NAMES.sub("_", call.name)[:_NAME_CHARACTERS] or "unnamed"
    arguments = _encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}


_encoder = msgspec.json.Encoder()


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(clean(value))
