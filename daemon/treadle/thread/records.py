"""The lines of a thread file that are no messages.

Each is an object with one key that names it: `thread` (the first line) and `turn`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from treadle.thread.message import Usage

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


class ThreadRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the first line says: the format's version and whose thread this is."""

    version: int
    agent: str = ""
    instance: str = ""
    created: str = ""


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start or the end of a turn; an end carries how the turn ended."""

    number: int
    event: Literal["start", "end"]
    at: str = ""
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    steps: int = 0


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line without a role: exactly one of these is set in what we write."""

    thread: ThreadRecord | None = None
    turn: TurnRecord | None = None
