"""The lines of a thread file that are no messages.

Each is an object with one key that names it: `thread` (the first line) and `turn`.
Reading is lenient: what a newer build wrote is read as far as this one knows it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from treadle.thread.message import Usage, split_unknown

FORMAT_VERSION = 1

StopReason: TypeAlias = Literal[
    "end_turn",
    "max_turns",
    "max_tokens",
    "refusal",
    "cancelled",
    "closed",
    "interrupted",
    "error",
]

# Turns are counted up from the highest one, so a damaged number must not be beyond counting.
HIGHEST_TURN = 2**31

TurnNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_TURN)]


class ThreadRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the first line says: the format's version and whose thread this is."""

    version: int
    agent: str = ""
    instance: str = ""
    created: str = ""


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start or the end of a turn; an end carries how the turn ended.

    `event` is `start` or `end` and `stop_reason` a `StopReason`, as far as this version writes.
    """

    number: TurnNumber
    event: str
    at: str = ""
    stop_reason: str | None = None
    usage: Usage | None = None
    steps: int = 0


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line without a role: exactly one of these is set in what we write."""

    thread: ThreadRecord | None = None
    turn: TurnRecord | None = None


def encode_record(record: ThreadRecord | TurnRecord) -> bytes:
    """Encode a record as its JSON line, without the line end."""
    if isinstance(record, ThreadRecord):
        return _encoder.encode(RecordLine(thread=record))
    return _encoder.encode(RecordLine(turn=record))


def decode_record(line: bytes) -> RecordLine:
    """Decode a line without a role; keys that this version does not know are ignored.

    Raises:
        msgspec.DecodeError: the line is no JSON, or a record of the wrong shape.
        RecursionError: it is nested beyond all reason.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        # Usage keeps unknown keys where messages are concerned, so here they are in its way.
        return msgspec.convert(_without_unknown_usage(msgspec.json.decode(line)), RecordLine)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RecordLine)


def _without_unknown_usage(plain: Any) -> Any:
    turn = plain.get("turn") if isinstance(plain, dict) else None
    if isinstance(turn, dict):
        turn["usage"] = split_unknown(Usage, turn.get("usage"))
    return plain
