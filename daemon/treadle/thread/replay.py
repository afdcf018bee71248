"""Reading a thread file: everything that can be read, and a report of what could not.

Owns what a line is, which lines count and which ordinals they have. Changes nothing on disk, so
it needs no lock.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec

from treadle.thread.files import check_regular, unusable
from treadle.thread.history import History
from treadle.thread.message import LINE_START, Message, decode_line, encode_line, from_plain
from treadle.thread.records import (
    COUNTED_TURNS,
    CompactedRecord,
    RecordLine,
    RewoundRecord,
    SteeredRecord,
    ThreadRecord,
    TurnRecord,
    decode_record,
)
from treadle.thread.redaction import without_secrets

# From here on the collector's walks over what is being built cost more than they could free.
BULK_BYTES = 1 << 20
# Files are read in pieces of this size: larger ones are no faster.
READ_BYTES = 1 << 18
# Half of SHA-256: two bad lines that meet are out of reach.
DIGEST_BYTES = 16

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
    bad_lines: list[BadLine] = field(default_factory=list)
    report: LoadReport = LoadReport()
    size_bytes: int = 0
    lacks_line_end: bool = False
    is_whole: bool = True

    def numbered(self) -> Iterable[tuple[int, Message]]:
        """Return the messages with their ordinals."""
        return zip(self.ordinals, self.messages, strict=True)


def load(path: Path) -> Loaded:
    """Read a thread file; a missing or empty one is a new thread.

    Args:
        path: the file; somebody may be writing it meanwhile.

    Raises:
        ThreadUnreadable: there is something, and it cannot be opened.
    """
    return _read(path, Reader())


def skim(path: Path) -> Loaded:
    """Read a thread file's records, and where its messages are, without decoding those.

    Raises:
        ThreadUnreadable: there is something, and it cannot be opened.
    """
    return _read(path, Reader(decodes=False))


def load_end(path: Path, size_bytes: int) -> Loaded:
    """Read the last part of a thread file, for a look at one that may be large.

    Args:
        path: the file.
        size_bytes: how much of it; a line that begins before that is left out.

    Raises:
        ThreadUnreadable: it cannot be opened.
    """
    with opened(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - size_bytes)
        file.seek(start)
        return Reader().read(file, start + len(file.readline()) if start else 0)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a thread file to read it; whatever then fails in reading is told alike.

    Raises:
        FileNotFoundError: it is not there.
        ThreadUnreadable: it cannot be opened or read.
    """
    check_regular(path)
    try:
        with path.open("rb", READ_BYTES) as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unusable(path, error) from error


def digest_of(data: bytes) -> str:
    """Return what a piece of a file is told by."""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES].hex()


def decode(line: bytes) -> Message | RecordLine:
    """Decode a line of either kind.

    Raises:
        msgspec.MsgspecError, RecursionError, UnicodeError: it cannot be read.
    """
    # Nearly every line is told by its start, and so decoded once.
    if line.startswith(LINE_START) or _probe.decode(line).role is not msgspec.UNSET:
        return decode_line(line)
    return decode_record(line)


# What a line that cannot be read raises, whatever is wrong with it.
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)


class Reader:
    """Takes in the lines of a file, in order.

    A line that cannot be read has an ordinal where it begins like a message. Where damage hides
    even that, the next record that says how many message lines there were sets it right, as far
    as there are lines that may have been messages.

    Args:
        history: what came before the first line that is read.
        decodes: whether messages are looked into, or only where they are.
        keeps: whether those that were are kept, or only those that are no mere text.
        follows: whether records have their effect.

    Attributes:
        odd_records: how many speak of messages that are not there.
    """

    def __init__(
        self,
        history: History | None = None,
        *,
        decodes: bool = True,
        keeps: bool = True,
        follows: bool = True,
    ) -> None:
        self.history = history or History()
        self.messages: list[Message] = []
        self.ordinals: Numbers = array("q")
        self.offsets: Numbers = array("q")
        self.header: ThreadRecord | None = None
        self.turns = 0
        self.began: TurnRecord | None = None
        self.steered: list[SteeredRecord] = []
        self.odd_records = 0
        self._decodes = decodes
        self._keeps = keeps
        self._follows = follows
        self._bad: list[BadLine] = []
        self._set_aside: Counter[str] = Counter()
        # Lines that may once have been messages, and where among the messages the first of them is.
        self._strange_lines = 0
        self._gap = 0

    def read(self, file: BinaryIO, start: int = 0, *, is_whole: bool = True) -> Loaded:
        """Read from `start`, where a line begins, to the end.

        Args:
            file: the file.
            start: where to begin, in bytes.
            is_whole: what to tell about that.
        """
        end, tail = start, b""
        file.seek(start)
        for number, line in enumerate(lines_of(file), 1):
            if line.endswith(b"\n"):
                self._take_whole(line[:-1], number, end)
                end += len(line)
            else:
                tail = line
        torn_bytes = len(tail) if self._take(tail, end, is_last=True) else 0
        bad_lines = list(self._new_bad_lines())
        return Loaded(
            messages=self.messages,
            ordinals=self.ordinals,
            offsets=self.offsets,
            history=self.history,
            header=self.header,
            turns=self.turns,
            unfinished=self.began.number if self.began else None,
            began=self.began,
            steered=self.steered,
            bad_lines=bad_lines,
            report=LoadReport(quarantined_lines=len(bad_lines), torn_bytes=torn_bytes),
            size_bytes=end + len(tail) - torn_bytes,
            lacks_line_end=bool(tail) and not torn_bytes,
            is_whole=is_whole,
        )

    def read_part(self, data: bytes, offset: int) -> None:
        """Take in whole lines, of which bad ones are known already."""
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            self._take_whole(line, number, offset)
            offset += len(line) + 1

    def _take_whole(self, line: bytes, number: int, offset: int) -> None:
        """Take in a line that has a line end, or note that it is bad."""
        if why := self._take(line, offset):
            self._bad.append(BadLine(number, offset, len(line), digest_of(line), why))
            self._note_strange()
            if line.startswith(LINE_START):
                self.history.add()

    def _take(self, line: bytes, offset: int, *, is_last: bool = False) -> str:
        """Take in one line; a blank one says nothing.

        Returns:
            Why it cannot be read; nothing where it can.
        """
        if not offset:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line or line.isspace():
            return ""
        if not self._decodes and not is_last and line.startswith(LINE_START):
            self._place(offset)
            return ""
        try:
            decoded = decode(line)
            if isinstance(decoded, Message):
                self._say(decoded, offset)
            else:
                self._follow(decoded)
        except UNREADABLE as error:
            return str(error) or type(error).__name__
        return ""

    def _place(self, offset: int) -> None:
        self.ordinals.append(self.history.add())
        self.offsets.append(offset)

    def _say(self, message: Message, offset: int) -> None:
        self._place(offset)
        if self._decodes and (self._keeps or not isinstance(message.content, str)):
            self.messages.append(message)
        # The start of its turn may be among the lines that could not be read.
        self.turns = max(self.turns, _counted(message.turn))
        if self.steered and message.role == "user":
            settle(self.steered, message)

    def _note_strange(self) -> None:
        if not self._strange_lines:
            self._gap = len(self.ordinals)
        self._strange_lines += 1

    def _follow(self, line: RecordLine) -> None:
        for record in (line.turn, line.compacted, line.rewound):
            if record is not None and record.messages:
                self._agree(record)
        if line == _UNKNOWN:
            self._note_strange()
        if not self._follows:
            return
        if line.turn is not None:
            self._count_turn(line.turn)
        elif line.rewound is not None:
            self.odd_records += line.rewound.to >= self.history.count
            self.history.rewind(line.rewound.to)
        elif line.compacted is not None:
            self.odd_records += line.compacted.through >= self.history.count
            self.history.compact(line.compacted)
        elif line.steered is not None:
            accepted(line.steered)
            self.steered.append(line.steered)
        elif line.set_aside is not None:
            self._set_aside.update(line.set_aside.lines)
        elif self.header is None:
            self.header = line.thread

    def _agree(self, record: TurnRecord | CompactedRecord | RewoundRecord) -> None:
        """Count the message lines that there were before a record, though damage hides some."""
        hidden, strange = record.messages - self.history.count, self._strange_lines
        self._strange_lines = 0
        # A larger number is itself damage, or somebody took lines out of the file.
        if not 0 < hidden <= strange:
            return
        self.history.add(hidden)
        for index in range(self._gap, len(self.ordinals)):
            self.ordinals[index] += hidden

    def _count_turn(self, turn: TurnRecord) -> None:
        self.turns = max(self.turns, _counted(turn.number))
        if turn.event == "start":
            self.began = turn
        elif turn.event == "end" and self.began and turn.number == self.began.number:
            self.began = None

    def _new_bad_lines(self) -> Iterator[BadLine]:
        known = self._set_aside.copy()
        for bad in self._bad:
            if known[bad.digest] > 0:
                known[bad.digest] -= 1
            else:
                yield bad


def accepted(record: SteeredRecord) -> Message:
    """Return the message that was accepted.

    Raises:
        msgspec.ValidationError: it is none, or none that could be told by its own line.
    """
    message = from_plain(record.message)
    if message.role != "user" or not message.at:
        raise msgspec.ValidationError("what was accepted is a user's message with its time")
    return message


def settle(steered: list[SteeredRecord], message: Message) -> None:
    """Take out the accepted message whose own line this is, if it is one's."""
    for index, record in enumerate(steered):
        if _is_said(accepted(record), message):
            del steered[index]
            return


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their line ends, up to the first one that has none."""
    for line in file:
        yield line
        if not line.endswith(b"\n"):
            # Somebody may be writing the rest of it right now; that would look like a line.
            return


def _is_said(accepted: Message, message: Message) -> bool:
    if accepted.at != message.at:
        return False
    # What was no secret when it was accepted may have become one.
    kept = decode_line(without_secrets(encode_line(accepted)))
    return message.content in (accepted.content, kept.content)


def _counted(turn: int) -> int:
    return turn if turn <= COUNTED_TURNS else 0


# A record of a newer version, or what damage made of a line's first key.
_UNKNOWN = RecordLine()
# What some editors put before the first line; no part of it.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Probe(msgspec.Struct):
    """Tells a message from a record where the first key does not."""

    role: Any = msgspec.UNSET


_probe = msgspec.json.Decoder(_Probe)


def _read(path: Path, reader: Reader) -> Loaded:
    try:
        with opened(path) as file, collector_off(os.fstat(file.fileno()).st_size >= BULK_BYTES):
            return reader.read(file)
    except FileNotFoundError:
        return Loaded()


@contextlib.contextmanager
def collector_off(wanted: bool) -> Iterator[None]:
    """Keep the garbage collector from walking over a large thread again and again."""
    if not (wanted and gc.isenabled()):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
