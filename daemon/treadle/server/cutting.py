"""A message that is too long for one reply, cut to what fits.

Owns what is cut first, and how that is told. Refuses to know what the message is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from treadle.protocol.sessions import Truncated, WireMessage, WireToolCall

# Far below what a client may leave unread, and beyond what anybody reads at once; four times a
# page, so that every message that a page may hold beside others is shown whole.
MESSAGE_BYTES = 16 << 20
# What a call needs besides what it says.
CALL_BYTES = 40
# What is nested deeper and does not fit is left out: it is no text that somebody said.
CUT_DEPTH = 8


def cut(message: WireMessage, thread: Path) -> WireMessage:
    """Return a message as it is, or as much of it as a reply may carry.

    Args:
        message: as it would be shown.
        thread: the file of its thread, which need not exist; it is looked for, which blocks.
    """
    size_bytes = len(_encoder.encode(message))
    if size_bytes <= MESSAGE_BYTES:
        return message
    scissors = _Scissors(MESSAGE_BYTES)
    short = msgspec.structs.replace(
        message,
        # What tells whose message this is comes before what it says.
        tool_call_id=scissors.cut(message.tool_call_id),
        at=scissors.cut(message.at),
        model=scissors.cut(message.model),
        content=scissors.cut(message.content),
        reasoning=scissors.cut(message.reasoning),
        tool_calls=list(scissors.cut_calls(message.tool_calls)),
    )
    left_out = size_bytes - len(_encoder.encode(short))
    path = str(thread) if thread.is_file() else None
    return msgspec.structs.replace(short, truncated=Truncated(bytes=left_out, path=path))


_encoder = msgspec.json.Encoder()


class _Scissors:
    """Cuts one value after the other, until nothing of a number of bytes is left."""

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes

    def cut(self, value: Any, depth: int = 0) -> Any:
        """Return as much of a JSON value as there is room for; what is text stays text."""
        size_bytes = len(_encoder.encode(value))
        if size_bytes <= self.left_bytes:
            self.left_bytes -= size_bytes
            return value
        if isinstance(value, str):
            return self._cut_text(value)
        is_deep = depth == CUT_DEPTH
        if isinstance(value, list):
            pairs = enumerate([] if is_deep else value)
            return [each for _, each in self._members(pairs, depth)]
        if isinstance(value, dict):
            return dict(self._members([] if is_deep else value.items(), depth))
        return None

    def cut_calls(self, calls: Iterable[WireToolCall]) -> Iterator[WireToolCall]:
        """Yield calls, as many as there is room for."""
        for call in calls:
            self.left_bytes -= CALL_BYTES
            if self.left_bytes <= 0:
                return
            name, call_id = self.cut(call.name), self.cut(call.id)
            yield WireToolCall(id=call_id, name=name, arguments=self.cut(call.arguments))

    def _members(self, members: Iterable[tuple[Any, Any]], depth: int) -> Iterator[tuple[Any, Any]]:
        for key, value in members:
            # A key and what stands between two members; a list has room to spare then.
            self.left_bytes -= len(_encoder.encode(key)) + 2
            if self.left_bytes <= 0:
                return
            yield key, self.cut(value, depth + 1)

    def _cut_text(self, text: str) -> str:
        room, self.left_bytes = self.left_bytes - len('""'), 0
        # A character has one byte at least, and six at most.
        text = text[: max(0, room)]
        while (size_bytes := len(_encoder.encode(text)) - len('""')) > room and text:
            text = text[: len(text) * room // size_bytes]
        return text
