"""Messages as a request's bytes, each message encoded once.

Owns the provider's form of a message. Refuses to know how bytes are sent.
The same conversation gives the same bytes, so that providers' prompt caches hit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.models.attachments import in_words
from treadle.models.completion import ToolSpec
from treadle.models.openai.attachments import Notes
from treadle.models.openai.parts import content_of, result_of
from treadle.thread.blobs import Blobs
from treadle.thread.message import Message, ToolCall, encode_json

# What every provider takes in the name of a function, in a call of old as in a tool.
_NAME_CHARACTERS = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

# What tools brought beside their text is shown as if a person had sent it: nobody else may show
# anything to a chat-completions endpoint.
_FROM_TOOLS = "[Not from the user: what the calls above returned beside their text.]"

# Usage is not sent with a stream unless it is asked for.
_TAIL = b',"stream":true,"stream_options":{"include_usage":true}}'


def encode_message(message: Message, content: str | list[dict[str, Any]] | None = None) -> bytes:
    """Encode one message as a provider wants it; empty for one that says nothing.

    Args:
        message: the message.
        content: what stands for its content; else that is put into words.
    """
    plain: dict[str, Any]
    if message.role == "tool":
        said = in_words(message.content) if content is None else content
        plain = {"tool_call_id": message.tool_call_id, "content": said}
    elif content is not None:
        plain = {"content": content}
    elif message.role != "assistant":
        plain = {"content": in_words(message.content)}
    elif message.tool_calls:
        calls = [_call(call) for call in message.tool_calls]
        plain = {"content": in_words(message.content) or None, "tool_calls": calls}
    elif message.content:
        plain = {"content": in_words(message.content)}
    else:
        return b""
    return encode_json({"role": message.role, **plain})


class HistoryEncoder:
    """Encodes requests of one conversation; what an earlier request held is not encoded again.

    Messages never change, so one is known by its identity. What has left the conversation is
    forgotten at the next request.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Encoded] = {}
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
        calls: dict[str, str] = {}
        for message in messages:
            calls.update((call.id, call.name) for call in message.tool_calls)
            notes = plan.get(id(message))
            known = self._known.get(id(message))
            if notes is None or (known is not None and known.notes == notes):
                continue
            caller = calls.get(message.tool_call_id, "a tool")
            self._known[id(message)] = await asyncio.to_thread(
                _encode_attached, message, notes, blobs, caller
            )

    def request(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> bytes:
        """Return the body of a streaming request."""
        parts = [b'{"model":', encode_json(model), b',"messages":[', self._messages(messages), b"]"]
        if tools:
            parts += [b',"tools":', self._encoded_tools(tools)]
        return b"".join((*parts, _TAIL))

    def _messages(self, messages: Sequence[Message]) -> bytes:
        before, now = self._known, {}
        for message in messages:
            known = before.get(id(message))
            now[id(message)] = known or _Encoded(message, (), encode_message(message))
        self._known = now
        return b",".join(_in_order([now[id(message)] for message in messages]))

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        if self._tools != list(tools):
            self._tools = list(tools)
            self._tools_bytes = encode_json([_tool(spec) for spec in tools])
        return self._tools_bytes


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A message, which is kept so that its identity is not given away, and its bytes.

    `beside` is what a tool's message cannot hold: parts of a user's, joined by commas.
    """

    message: Message
    notes: Notes
    data: bytes
    beside: bytes = b""


def _in_order(encoded: Sequence[_Encoded]) -> Iterator[bytes]:
    """Yield messages as they are sent: what tools show follows the last result of their batch."""
    beside: list[bytes] = []
    for each in encoded:
        if beside and each.message.role != "tool":
            yield _from_tools(beside)
            beside = []
        if each.data:
            yield each.data
        if each.beside:
            beside.append(each.beside)
    if beside:
        yield _from_tools(beside)


def _from_tools(beside: Sequence[bytes]) -> bytes:
    head = encode_json({"type": "text", "text": _FROM_TOOLS})
    return b'{"role":"user","content":[%b]}' % b",".join((head, *beside))


def _encode_attached(message: Message, notes: Notes, blobs: Blobs, caller: str) -> _Encoded:
    if message.role != "tool":
        encoded = encode_message(message, content_of(message, notes, blobs))
        return _Encoded(message, notes, encoded)
    text, parts = result_of(message, notes, blobs)
    if parts:
        parts.insert(0, {"type": "text", "text": f"From {caller}, call {message.tool_call_id}:"})
    # Without the brackets of a list: those of one batch are joined.
    return _Encoded(message, notes, encode_message(message, text), encode_json(parts)[1:-1])


def _call(call: ToolCall) -> dict[str, Any]:
    """A call as it goes back: its arguments are always an object, its name one providers take."""
    name = _NOT_IN_NAMES.sub("_", call.name)[:_NAME_CHARACTERS] or "unnamed"
    arguments = encode_json(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}
