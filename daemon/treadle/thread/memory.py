"""The messages of an open thread that are in memory, and where the file has them.

Owns which of them are there: all of them, until a compaction gives some up. Refuses to write.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from treadle.thread.history import (
    History,
    Placed,
    clipped,
    intersected,
    normal,
    quoted,
    within,
)
from treadle.thread.lines import opened
from treadle.thread.loaded import Loaded
from treadle.thread.message import Message
from treadle.thread.reading import Reading
from treadle.thread.records import CompactedRecord, Range
from treadle.thread.resume import Span, find_spans


@dataclass(frozen=True, slots=True)
class Mark:
    """What a view followed from, for whoever wants to know what it has gained since.

    Args:
        history: whose view it was: another file has another one.
        compaction: the one that counted.
        held: the ordinals that the conversation held; one is never used for another message.
    """

    history: History
    compaction: CompactedRecord | None
    held: tuple[Range, ...]


class Memory:
    """Messages by ordinal.

    Attributes:
        messages: those in memory, in order; one list object for the thread's life.
        history: which messages the conversation holds, in memory or not.
        is_whole: every message line is in memory.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.history = History()
        self.is_whole = True
        self._ordinals = array("q")
        self._offsets = array("q")

    def take(self, loaded: Loaded) -> None:
        """Hold what was loaded and nothing else."""
        self.messages[:] = loaded.messages
        self.history = loaded.history
        self.is_whole = loaded.is_whole
        self._ordinals, self._offsets = loaded.ordinals, loaded.offsets

    def copy(self, other: Memory) -> None:
        """Hold what another one holds, and change apart from it."""
        self.messages[:] = other.messages
        self.history = other.history.copy()
        self.is_whole = other.is_whole
        self._ordinals, self._offsets = other._ordinals[:], other._offsets[:]

    def add(self, message: Message, offset: int) -> None:
        """Hold one more message line.

        Args:
            message: what it says.
            offset: where it begins in the file, as far as that is known.
        """
        self._ordinals.append(self.history.add())
        self._offsets.append(offset)
        self.messages.append(message)

    def numbered(self) -> Iterable[tuple[int, Message]]:
        """Return the messages with their ordinals."""
        return zip(self._ordinals, self.messages, strict=True)

    def gained(self, since: Mark | None) -> tuple[Mark, list[Placed] | None]:
        """Tell what the view shows behind all that it showed at a mark; and where it stands now.

        Returns:
            A new mark, and None in the place of messages where anything else has changed.
        """
        history = self.history
        now = Mark(history, history.compaction, tuple(history.held))
        is_same = since is not None and since.history is history
        if since is None or not is_same or since.compaction is not history.compaction:
            return now, None
        last = since.held[-1][1] if since.held else -1
        if tuple(clipped(history.held, last)) != since.held:
            return now, None
        start = bisect_left(self._ordinals, last + 1)
        later = zip(self._ordinals[start:], self.messages[start:], strict=True)
        return now, [Placed(quoted(said), at) for at, said in within(history.held, later)]

    def reading(self, path: Path | None) -> Reading:
        """Return a snapshot."""
        return Reading(
            path, self.history.copy(), self.messages[:], self._ordinals[:], self.is_whole
        )

    def has_all_of(self, after: History) -> bool:
        """Tell whether a changed history shows nothing that an earlier compaction gave up."""
        return intersected(self.history.seen(), after.seen()) == after.seen()

    def spans(self, path: Path, after: History) -> list[Span]:
        """Tell where the lines lie that a thread with this history is resumed with.

        Raises:
            OSError, ValueError: that cannot be told now.
            ThreadUnreadable: the file cannot be read.
        """
        with opened(path) as file:
            return find_spans(file, after.seen(), self._ordinals, self._offsets)

    def give_up(self) -> None:
        """Let go of messages that no model sees any more and that only pages show."""
        record = self.history.compaction
        if record is None:
            return
        wanted = [*self.history.seen()]
        if self.history.count:
            # What follows the compaction stays, so that its pages need no file.
            wanted = normal([*wanted, (record.through + 1, self.history.count)])
        offsets = dict(zip(self._ordinals, self._offsets, strict=True))
        kept = list(within(wanted, self.numbered()))
        self.is_whole = self.is_whole and len(kept) == len(self.messages)
        self._offsets = array("q", (offsets[ordinal] for ordinal, _ in kept))
        self._ordinals = array("q", (ordinal for ordinal, _ in kept))
        self.messages[:] = [message for _, message in kept]
