"""What a conversation holds and what a model sees of it, told in ordinals.

Owns the arithmetic of rewinds and compactions. Pure: refuses to know files and lines.
An ordinal is the 0-based number of a message line; it is never used again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import msgspec

from treadle.errors import NoSuchOrdinal
from treadle.thread.message import Content, Message
from treadle.thread.records import CompactedRecord, Range

Made: TypeAlias = Literal["summary", "note"]

T = TypeVar("T")

# How everything begins that a compaction says to a model. A person's text that begins like it
# is quoted in the view, so that nobody else can say it.
MARK = "[treadle "
SUMMARY_MARK = MARK + "summary of what was said before]\n"
NOTE_MARK = MARK + "note]\n"
QUOTED = "The person wrote: "


@dataclass(frozen=True, slots=True)
class Placed:
    """A message where it stands, in a thread or in a view.

    Args:
        message: what is said there.
        ordinal: its place among the thread's message lines; None where a compaction made it.
        made: what a compaction made it for.
        rewound: the conversation holds it no more.
        compacted: the conversation holds it, and the model sees it no more, or not as it was.
    """

    message: Message
    ordinal: int | None = None
    made: Made | None = None
    rewound: bool = False
    compacted: bool = False


@dataclass(slots=True)
class History:
    """Which ordinals a conversation holds, and the compactions that stand.

    Args:
        count: how many message lines there are; the next one's ordinal.
        held: the ranges of ordinals that the conversation holds, in order.
        compactions: those that no rewind has undone, in order; the last one counts. Where a
            thread was opened from a compaction on, earlier ones are missing.
    """

    count: int = 0
    held: list[Range] = field(default_factory=list)
    compactions: list[CompactedRecord] = field(default_factory=list)

    @property
    def compaction(self) -> CompactedRecord | None:
        """The compaction that counts."""
        return self.compactions[-1] if self.compactions else None

    @property
    def last(self) -> int:
        """The ordinal at which the conversation ends; -1 where it is empty."""
        return self.held[-1][1] if self.held else -1

    def copy(self) -> History:
        """Return one that this one's changes do not reach."""
        return History(self.count, list(self.held), list(self.compactions))

    def add(self, lines: int = 1) -> int:
        """Take in message lines; return the first one's ordinal."""
        first = self.count
        self.count += lines
        if lines and self.held and self.held[-1][1] == first - 1:
            self.held[-1] = (self.held[-1][0], self.count - 1)
        elif lines:
            self.held.append((first, self.count - 1))
        return first

    def rewind(self, to: int) -> None:
        """End the conversation at an ordinal; a compaction of anything beyond it is undone."""
        self.held = clipped(self.held, to)
        while self.compactions and self.compactions[-1].through > to:
            self.compactions.pop()

    def compact(self, record: CompactedRecord) -> None:
        """Let a compaction count; what it says of lines that are not there yet is left out."""
        through = min(record.through, self.count - 1)
        self.compactions.append(msgspec.structs.replace(record, through=through))

    def holds(self, ordinal: int) -> bool:
        """Tell whether the conversation holds a message."""
        return _contains(self.held, ordinal)

    def require_held(self, ordinal: int) -> None:
        """Refuse an ordinal at which the conversation cannot end; -1 is its very beginning.

        Raises:
            NoSuchOrdinal: it is not.
        """
        if ordinal != -1 and not self.holds(ordinal):
            raise NoSuchOrdinal(
                f"the conversation holds no message {ordinal}; "
                "read the session to see which ordinals it has"
            )

    def held_count(self) -> int:
        """Return how many ordinals the conversation holds."""
        return sum(last - first + 1 for first, last in self.held)

    def seen(self) -> list[Range]:
        """Return the ranges of ordinals whose messages have a part in the model's view."""
        record = self.compaction
        if record is None:
            return list(self.held)
        kept = intersected(self.held, clipped(normal(record.keep), record.through))
        return merged([*kept, *intersected(self.held, [(record.through + 1, self.count)])])

    def place(self, messages: Iterable[tuple[int, Message]]) -> Iterator[Placed]:
        """Show message lines as a reader of the whole thread sees them."""
        seen = self.seen()
        rewritten = self.compaction.rewritten if self.compaction else {}
        for ordinal, message in messages:
            held = self.holds(ordinal)
            is_seen = _contains(seen, ordinal) and ordinal not in rewritten
            yield Placed(message, ordinal, rewound=not held, compacted=held and not is_seen)

    def view(self, messages: Iterable[tuple[int, Message]]) -> list[Placed]:
        """Show the conversation as a model sees it, before what makes it valid for providers.

        Args:
            messages: ordinals with their messages, rising; those of `seen` are enough.
        """
        return [Placed(message, ordinal, made) for ordinal, made, message in self.spoken(messages)]

    def spoken(
        self, messages: Iterable[tuple[int, Message]]
    ) -> Iterator[tuple[int | None, Made | None, Message]]:
        """Yield what `view` shows, piece by piece: without an object for each."""
        record = self.compaction or CompactedRecord()
        notes = deque(sorted(record.notes, key=lambda note: note.before))
        if record.summary:
            yield None, "summary", Message("user", SUMMARY_MARK + record.summary)
        for ordinal, message in within(self.seen(), messages):
            while notes and (notes[0].before <= ordinal or ordinal > record.through):
                yield None, "note", Message("user", NOTE_MARK + notes.popleft().text)
            text = record.rewritten.get(ordinal) if ordinal <= record.through else None
            yield ordinal, None, _as_seen(message, text)
        for note in notes:
            yield None, "note", Message("user", NOTE_MARK + note.text)


def normal(ranges: Iterable[Sequence[int]]) -> list[Range]:
    """Return ranges sorted and without overlaps, however they came; empty ones are left out."""
    return merged(sorted((first, last) for first, last in ranges if 0 <= first <= last))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Join sorted ranges that touch or overlap."""
    joined: list[Range] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def clipped(ranges: Sequence[Range], to: int) -> list[Range]:
    """Return what of sorted ranges is not beyond `to`."""
    return [(first, min(last, to)) for first, last in ranges if first <= to]


def intersected(some: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return what two lists of sorted ranges without overlaps have in common."""
    common: list[Range] = []
    left, right = 0, 0
    while left < len(some) and right < len(others):
        first = max(some[left][0], others[right][0])
        last = min(some[left][1], others[right][1])
        if first <= last:
            common.append((first, last))
        if some[left][1] < others[right][1]:
            left += 1
        else:
            right += 1
    return common


def within(ranges: Sequence[Range], numbered: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
    """Yield what has an ordinal in sorted ranges; both rise."""
    index = 0
    for ordinal, thing in numbered:
        while index < len(ranges) and ranges[index][1] < ordinal:
            index += 1
        if index == len(ranges):
            return
        if ranges[index][0] <= ordinal:
            yield ordinal, thing


def _contains(ranges: Sequence[Range], ordinal: int) -> bool:
    index = bisect_right(ranges, ordinal, key=lambda one: one[0]) - 1
    return index >= 0 and ordinal <= ranges[index][1]


def _as_seen(message: Message, text: str | None) -> Message:
    """Return a kept message as a model sees it: rewritten, and never with our mark."""
    if text is not None:
        return msgspec.structs.replace(message, content=text)
    return quoted(message)


def quoted(message: Message) -> Message:
    """Return a message itself, or with its text quoted where a person's begins like our mark."""
    if message.role != "user" or not _MARKED.match(message.text):
        return message
    content: Content = message.content
    if isinstance(content, str):
        return msgspec.structs.replace(message, content=QUOTED + content)
    return msgspec.structs.replace(message, content=[{"type": "text", "text": QUOTED}, *content])


_MARKED = re.compile(r"\s*" + re.escape(MARK), re.IGNORECASE)
