"""Opening a thread from its last compaction on, without reading what was given up.

Owns the hints that a compaction's record carries and their verification: where any of them does
not fit, or the record's line is not the one that was sealed, the whole file is read instead, so
that a hint can cost time and nothing else.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from treadle.thread.accepted import accepted
from treadle.thread.header import header_of
from treadle.thread.history import History, intersected, merged, normal
from treadle.thread.lines import UNREADABLE, digest_of, lines_of, opened
from treadle.thread.loaded import Loaded, Numbers
from treadle.thread.reader import Reader
from treadle.thread.records import (
    COMPACTED_START,
    COUNTED_TURNS,
    Count,
    Range,
    SteeredRecord,
    ThreadRecord,
    TurnRecord,
    decode_record,
    is_sealed,
)
from treadle.thread.replay import collector_off, load

# The file is searched from its end in pieces of this size.
SEARCH_BYTES = 1 << 20


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Where the lines of kept messages lie: from the first one's to the last one's."""

    first: Count
    last: Count
    offset: Count
    size_bytes: Count
    messages: Count
    digest: str


class Resume(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a thread is opened with, besides what follows the record.

    Args:
        turns: the highest number of a turn.
        held: the ordinals that the conversation held.
        spans: where those lie that a model has a use for.
        began: the turn that was running.
        steered: messages that were accepted and had no line of their own.
    """

    turns: Annotated[int, msgspec.Meta(ge=0, le=COUNTED_TURNS)]
    held: list[Range]
    spans: list[Span]
    began: TurnRecord | None = None
    steered: list[SteeredRecord] = []


def resume(path: Path) -> Loaded:
    """Read what a model has a use for; the whole file, where that cannot be told apart.

    Args:
        path: the file; a missing or empty one is a new thread.

    Raises:
        ThreadUnreadable: there is something, and it cannot be opened.
    """
    try:
        with opened(path) as file:
            start = _last_compaction(file)
            with collector_off(start is not None):
                loaded = None if start is None else _from_record(file, start)
    except FileNotFoundError:
        return Loaded()
    return loaded or load(path)


def find_spans(
    file: BinaryIO, seen: Sequence[Range], ordinals: Numbers, offsets: Numbers
) -> list[Span]:
    """Tell where the lines of ranges of messages lie.

    Args:
        file: the thread's file.
        seen: the ranges.
        ordinals: the messages that there are, those of the ranges among them.
        offsets: where their lines begin.
    """
    spans = []
    for first, last in seen:
        start, end = bisect_left(ordinals, first), bisect_right(ordinals, last) - 1
        if start > end:
            continue
        file.seek(offsets[end])
        stop = offsets[end] + len(file.readline())
        file.seek(offsets[start])
        data = file.read(stop - offsets[start])
        messages = end + 1 - start
        spans.append(
            Span(
                ordinals[start], ordinals[end], offsets[start], len(data), messages, digest_of(data)
            )
        )
    return spans


def _last_compaction(file: BinaryIO) -> int | None:
    """Return where the line of the last compaction begins, searched from the end."""
    sought = b"\n" + COMPACTED_START
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - SEARCH_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(sought)
        if found >= 0:
            return start + found + 1
        # What lies across the border of two pieces is whole in the next one.
        end = start + len(sought) - 1 if start else 0
    return None


def _from_record(file: BinaryIO, start: int) -> Loaded | None:
    """Read what the record at `start` kept and what follows it; None where anything is odd."""
    try:
        file.seek(start)
        line = next(lines_of(file), b"")
        record = decode_record(line).compacted if is_sealed(line[:-1]) else None
        if record is None or not line.endswith(b"\n"):
            return None
        found = msgspec.convert(record.resume, Resume)
        for steered in found.steered:
            accepted(steered)
    except UNREADABLE:
        return None
    history = History(record.messages, normal(found.held), [record])
    if not history.holds(record.through) or history.last >= record.messages:
        return None
    # Every message has a line of more bytes than one.
    if record.messages > start:
        return None
    kept = _read_spans(file, found, history)
    if kept is None:
        return None
    after = Reader(history)
    after.turns, after.began, after.steered = found.turns, found.began, list(found.steered)
    loaded = after.read(file, start + len(line), is_whole=False)
    # A compaction that was rewound gives back what it had replaced.
    if not history.compactions:
        return None
    return _joined(kept, loaded, header_of(file))


def _read_spans(file: BinaryIO, found: Resume, history: History) -> Reader | None:
    """Read kept messages where they are said to lie, if they still do."""
    kept = Reader(follows=False)
    seen = history.seen()
    if any(one.last >= other.first for one, other in pairwise(found.spans)):
        return None
    # Damage at the edge of a range is in no span; then the whole file is read as well.
    if merged((span.first, span.last) for span in found.spans) != merged(seen):
        return None
    for span in found.spans:
        lines = Reader(History(span.first), follows=False)
        data = _verified(file, span)
        if data is None or intersected(seen, [(span.first, span.last)]) != [
            (span.first, span.last)
        ]:
            return None
        lines.read_part(data, span.offset)
        if (lines.history.count, len(lines.messages)) != (span.last + 1, span.messages):
            return None
        kept.messages += lines.messages
        kept.ordinals += lines.ordinals
        kept.offsets += lines.offsets
    return kept


def _verified(file: BinaryIO, span: Span) -> bytes | None:
    """Return the bytes of a span, if they are whole lines and those that were meant."""
    end = file.seek(0, os.SEEK_END)
    if not 0 < span.offset <= span.offset + span.size_bytes <= end:
        return None
    file.seek(span.offset - 1)
    data = file.read(1 + span.size_bytes)
    if not data.startswith(b"\n") or not data.endswith(b"\n"):
        return None
    return data[1:] if digest_of(data[1:]) == span.digest else None


def _joined(kept: Reader, after: Loaded, header: ThreadRecord | None) -> Loaded:
    """Put what was kept before what came after it."""
    return replace(
        after,
        messages=kept.messages + after.messages,
        ordinals=kept.ordinals + after.ordinals,
        offsets=kept.offsets + after.offsets,
        header=header,
    )
