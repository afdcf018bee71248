"""A thread that begins as a copy of another one's conversation.

Owns where a copy may end and how a compaction is taken along. The source is only read, and may be
open and running.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from treadle.errors import UnknownSession
from treadle.thread.blobs import copy_blobs
from treadle.thread.history import History, within
from treadle.thread.lines import BYTE_ORDER_MARK, UNREADABLE, decode, opened
from treadle.thread.loaded import Loaded, Numbers
from treadle.thread.message import Message, now
from treadle.thread.opening import bring_back
from treadle.thread.records import (
    FORMAT_VERSION,
    CompactedRecord,
    Forked,
    Note,
    Range,
    ThreadRecord,
    encode_record,
)
from treadle.thread.replay import skim
from treadle.thread.resume import Resume, find_spans
from treadle.thread.whole import new_thread


@dataclass(frozen=True, slots=True)
class Copied:
    """What a fork holds.

    Args:
        at: the last ordinal of the source that was copied; -1 where nothing was.
        messages: how many messages it has.
        lost_blobs: names of files that its messages refer to and the source lacks.
    """

    at: int
    messages: int
    lost_blobs: list[str]


def fork(
    source: Path,
    into: Path,
    *,
    at: int | None = None,
    origin: tuple[str, str] = ("", ""),
    pair: tuple[str, str] = ("", ""),
) -> Copied:
    """Copy a conversation, with the compaction that counts, to a new thread; it blocks.

    Keys of prompts stay with the source.

    Args:
        source: the file of the thread to copy from.
        into: the file of the thread to make.
        at: the last ordinal to copy; the end of the conversation if absent, or of the last step
            that is finished where a turn is running.
        origin: the source's agent and instance, for the first line.
        pair: the new thread's agent and instance.

    Raises:
        UnknownSession: there is nothing to copy from.
        NoSuchOrdinal: the conversation does not hold `at`.
        ThreadExists: there is a thread already at `into`.
        ThreadLocked: somebody holds that one.
        ThreadUnreadable: the source cannot be read.
        StorageDegraded: the copy could not be written, and nothing is left of it; or lines of the
            source lie elsewhere and cannot be brought back now.
    """
    # A copy must not lack what was said and could not be written by the time that was closed.
    bring_back(source)
    try:
        with opened(source) as file:
            found = skim(source)
            end = _last_finished(file, found) if at is None else at
            found.history.require_held(end)
            found.history.rewind(end)
            with new_thread(into) as target:
                agent, instance = pair
                header = ThreadRecord(FORMAT_VERSION, agent, instance, now(), Forked(*origin, end))
                target.write(encode_record(header) + b"\n")
                copy = _Copy(target)
                copy.take(file, found)
                lost = copy_blobs(source, into, copy.with_blobs)
    except FileNotFoundError:
        raise UnknownSession(f"there is no thread {source} to copy from") from None
    return Copied(end, len(copy.ordinals), lost)


def conversation_lines(file: BinaryIO, found: Loaded) -> Iterator[tuple[int, bytes, Message]]:
    """Yield the lines of a conversation's messages, with ordinals; what cannot be read is left out.

    Args:
        file: the thread's file.
        found: what `skim` found in it.
    """
    for ordinal, offset in within(
        found.history.held, zip(found.ordinals, found.offsets, strict=True)
    ):
        file.seek(offset)
        line = file.readline().removeprefix(BYTE_ORDER_MARK).strip()
        try:
            message = decode(line)
        except UNREADABLE:
            continue
        if isinstance(message, Message):
            yield ordinal, line, message


def last_finished(history: History, start: int, messages: Iterable[tuple[int, Message]]) -> int:
    """Return the ordinal at which the last finished step ends while a turn is running.

    Args:
        history: what the conversation holds.
        start: the ordinal of the turn's first message.
        messages: those of the conversation, with ordinals.
    """
    before = history.copy()
    before.rewind(start - 1)
    finished = before.last
    waiting: list[str] = []
    for ordinal, message in messages:
        if ordinal < start:
            continue
        if message.role == "assistant":
            waiting = [call.id for call in message.tool_calls]
        elif message.role != "tool" or message.tool_call_id not in waiting:
            continue
        else:
            waiting.remove(message.tool_call_id)
        if not waiting:
            finished = ordinal
    return finished


class _Copy:
    """A thread that is being written, message by message.

    Attributes:
        ordinals: those that its messages have in the source.
        with_blobs: its messages that are no mere text.
    """

    def __init__(self, target: BinaryIO) -> None:
        self.ordinals: Numbers = array("q")
        self.with_blobs: list[Message] = []
        self._target = target
        self._offsets: Numbers = array("q")
        self._turns = 0

    def take(self, file: BinaryIO, found: Loaded) -> None:
        """Copy a conversation; its compaction goes behind what it replaces."""
        record = found.history.compaction
        for ordinal, line, message in conversation_lines(file, found):
            if record is not None and ordinal > record.through:
                self._compact(record)
                record = None
            self.ordinals.append(ordinal)
            self._offsets.append(self._target.tell())
            self._turns = max(self._turns, message.turn)
            self._target.write(line + b"\n")
            if not isinstance(message.content, str):
                self.with_blobs.append(message)
        if record is not None:
            self._compact(record)

    def _compact(self, record: CompactedRecord) -> None:
        count = len(self.ordinals)
        moved = self._moved(record, count)
        history = History()
        history.add(count)
        history.compact(moved)
        own = array("q", range(count))
        self._target.flush()
        spans = find_spans(self._target, history.seen(), own, self._offsets)
        self._target.seek(0, 2)
        resume = Resume(self._turns, history.held, spans)
        self._target.write(encode_record(msgspec.structs.replace(moved, resume=resume)) + b"\n")

    def _moved(self, record: CompactedRecord, count: int) -> CompactedRecord:
        """Tell a compaction in the ordinals of the copy."""
        kept = [self._range(one) for one in record.keep]
        return msgspec.structs.replace(
            record,
            through=count - 1,
            keep=[(first, last) for first, last in kept if first <= last],
            rewritten={
                self._place(ordinal): text
                for ordinal, text in record.rewritten.items()
                if self._has(ordinal)
            },
            notes=[Note(self._place(note.before), note.text) for note in record.notes],
            messages=count,
        )

    def _range(self, of: Range) -> Range:
        return self._place(of[0]), bisect_right(self.ordinals, of[1]) - 1

    def _place(self, ordinal: int) -> int:
        return bisect_left(self.ordinals, ordinal)

    def _has(self, ordinal: int) -> bool:
        place = self._place(ordinal)
        return place < len(self.ordinals) and self.ordinals[place] == ordinal


def _last_finished(file: BinaryIO, found: Loaded) -> int:
    """Return the ordinal at which the last finished step of a conversation ends."""
    if found.began is None:
        return found.history.last
    lines = conversation_lines(file, found)
    messages = ((ordinal, message) for ordinal, _, message in lines)
    return last_finished(found.history, found.began.messages, messages)
