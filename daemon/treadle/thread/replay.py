"""Reading a thread file: everything that can be read, and a report of what could not.

Owns what a line is and which lines count. Changes nothing on disk, so it needs no lock.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from treadle.thread.files import check_regular, unusable
from treadle.thread.message import LINE_START, Message, decode_line
from treadle.thread.records import (
    HIGHEST_TURN,
    RecordLine,
    ThreadRecord,
    TurnRecord,
    decode_record,
)

# From here on the collector's walks over what is being built cost more than they could free.
BULK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was wrong with a thread file.

    Args:
        quarantined_lines: lines in the middle that could not be read; they stay in the file.
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
class Loaded:
    """A thread file as it was read.

    Args:
        messages: every message line, in order.
        header: the record of the first line, if there is one.
        turns: the highest number of a turn.
        unfinished: the number of the last turn, if it has no end.
        report: what was wrong.
        size_bytes: where the last line that could be read, or was skipped, ends.
        lacks_line_end: that last line has no line end yet.
    """

    messages: list[Message] = field(default_factory=list)
    header: ThreadRecord | None = None
    turns: int = 0
    unfinished: int | None = None
    report: LoadReport = LoadReport()
    size_bytes: int = 0
    lacks_line_end: bool = False


def load(path: Path) -> Loaded:
    """Read a thread file; a missing or empty one is a new thread.

    Args:
        path: the file; somebody may be writing it meanwhile.

    Raises:
        ThreadUnreadable: there is something, and it cannot be opened.
    """
    check_regular(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Loaded()
    except OSError as error:
        raise unusable(path, error) from error
    with _collector_off(len(data) >= BULK_BYTES):
        return _Reader().read(data)


def load_end(path: Path, size_bytes: int) -> Loaded:
    """Read the last part of a thread file, for a look at one that may be large.

    Args:
        path: the file.
        size_bytes: how much of it; a line that begins before that is left out.

    Raises:
        ThreadUnreadable: it cannot be opened.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - size_bytes)
            file.seek(start)
            data = file.read(size_bytes)
    except OSError as error:
        raise unusable(path, error) from error
    return _Reader().read(data.partition(b"\n")[2] if start else data)


# What some editors put before the first line; no part of it.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What a line that cannot be read raises, whatever is wrong with it.
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)


class _Probe(msgspec.Struct):
    """Tells a message from a record where the first key does not."""

    role: Any = msgspec.UNSET


_probe = msgspec.json.Decoder(_Probe)


class _Reader:
    """Takes in the lines of one file, in order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._header: ThreadRecord | None = None
        self._turns = 0
        self._unfinished: int | None = None
        self._quarantined_lines = 0

    def read(self, data: bytes) -> Loaded:
        *lines, tail = data.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
        for line in lines:
            if not self._take(line):
                self._quarantined_lines += 1
        torn_bytes = 0 if self._take(tail) else len(tail)
        return Loaded(
            messages=self._messages,
            header=self._header,
            turns=self._turns,
            unfinished=self._unfinished,
            report=LoadReport(
                quarantined_lines=self._quarantined_lines,
                torn_bytes=torn_bytes,
            ),
            size_bytes=len(data) - torn_bytes,
            lacks_line_end=bool(tail) and not torn_bytes,
        )

    def _take(self, line: bytes) -> bool:
        """Take in one line; False when it cannot be read. A blank one says nothing."""
        if not line or line.isspace():
            return True
        try:
            decoded = _decode(line)
        except _UNREADABLE:
            return False
        if isinstance(decoded, Message):
            self._messages.append(decoded)
            # The start of its turn may be among the lines that could not be read.
            self._turns = max(self._turns, decoded.turn if decoded.turn <= HIGHEST_TURN else 0)
        elif decoded.turn is not None:
            self._count_turn(decoded.turn)
        elif self._header is None:
            self._header = decoded.thread
        return True

    def _count_turn(self, turn: TurnRecord) -> None:
        self._turns = max(self._turns, turn.number)
        if turn.event == "start":
            self._unfinished = turn.number
        elif turn.event == "end" and turn.number == self._unfinished:
            self._unfinished = None


def _decode(line: bytes) -> Message | RecordLine:
    # Nearly every line is told by its start, and so decoded once.
    if line.startswith(LINE_START) or _probe.decode(line).role is not msgspec.UNSET:
        return decode_line(line)
    return decode_record(line)


@contextlib.contextmanager
def _collector_off(wanted: bool) -> Iterator[None]:
    """Keep the garbage collector from walking over a large thread again and again."""
    if not (wanted and gc.isenabled()):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
