"""A thread file as it was read: what was said, which of it counts, and what could not be read.

Owns the shape of that alone: refuses to know how it is read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from treadle.thread.history import History
from treadle.thread.message import Message
from treadle.thread.records import SteeredRecord, ThreadRecord, TurnRecord

# Numbers without a Python object for each: a large thread has many.
Numbers: TypeAlias = "array[int]"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was wrong with a thread file.

    Args:
        quarantined_lines: lines in the middle that could not be read and are not yet known to
            lie in the `.damaged` file; they stay in the file.
        torn_bytes: bytes at the end that are no whole line.
        repaired_calls: calls that got a result because an interrupted turn left them without.
        interrupted_turn: the turn that was closed because a kill had left it open; None after
            mere reading, for somebody may be running it.
    """

    quarantined_lines: int = 0
    torn_bytes: int = 0
    repaired_calls: int = 0
    interrupted_turn: int | None = None


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line in the middle that cannot be read.

    Args:
        number: which line of the file it is, from 1; of what was read, where that is a part.
        offset: where it begins, in bytes.
        size_bytes: how long it is, without its line end.
        digest: of its bytes.
        why: what was wrong with it.
    """

    number: int
    offset: int
    size_bytes: int
    digest: str
    why: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A thread file as it was read.

    Args:
        messages: the messages that were read, in order: every line's, or those that a model
            has a use for.
        ordinals: their ordinals; of every message line, where no messages were decoded.
        offsets: where their lines begin, in bytes.
        history: which of them the conversation holds.
        header: the record of the first line, if there is one.
        turns: the highest number of a turn.
        unfinished: the number of the last turn, if it has no end.
        began: how that turn began.
        steered: messages that were accepted and have no line of their own.
        not_allowed: the ids of the open turn's calls that a person was asked about and has not
            allowed: they have not run.
        bad_lines: those that the report counts.
        report: what was wrong.
        size_bytes: where the last line that could be read, or was skipped, ends.
        lacks_line_end: that last line has no line end yet.
        is_whole: every line was read.
    """

    messages: list[Message] = field(default_factory=list)
    ordinals: Numbers = field(default_factory=lambda: array("q"))
    offsets: Numbers = field(default_factory=lambda: array("q"))
    history: History = field(default_factory=History)
    header: ThreadRecord | None = None
    turns: int = 0
    unfinished: int | None = None
    began: TurnRecord | None = None
    steered: list[SteeredRecord] = field(default_factory=list)
    not_allowed: frozenset[str] = frozenset()
    bad_lines: list[BadLine] = field(default_factory=list)
    report: LoadReport = LoadReport()
    size_bytes: int = 0
    lacks_line_end: bool = False
    is_whole: bool = True

    def numbered(self) -> Iterable[tuple[int, Message]]:
        """Return the messages with their ordinals."""
        return zip(self.ordinals, self.messages, strict=True)
