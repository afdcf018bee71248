"""Taking in the lines of a thread file, in order.

Owns which lines count and which ordinals they have. Refuses to know where the lines come from.
"""

from __future__ import annotations

import copy
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from treadle.thread.accepted import accepted, settle
from treadle.thread.history import History
from treadle.thread.lines import (
    BYTE_ORDER_MARK,
    LONGEST_LINE_BYTES,
    UNREADABLE,
    LongLine,
    decode,
    digest_of,
    starts_of_lines,
    whole_line,
)
from treadle.thread.loaded import BadLine, Loaded, LoadReport, Numbers
from treadle.thread.message import LINE_START, Message
from treadle.thread.records import (
    ALLOWING,
    COUNTED_TURNS,
    ApprovalRecord,
    CompactedRecord,
    RecordLine,
    RewoundRecord,
    SteeredRecord,
    ThreadRecord,
    TurnRecord,
)


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
        is_doubtful: where messages were not looked into, there may be others than those found.
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
        self.is_doubtful = False
        self._decodes = decodes
        self._keeps = keeps
        self._follows = follows
        self._bad: list[BadLine] = []
        # What is behind the last line end.
        self._tail: bytes | LongLine = b""
        self._set_aside: Counter[str] = Counter()
        # Lines that may once have been messages, and where among the messages the first of them is.
        self._strange_lines = 0
        self._gap = 0
        # Calls of the turn that a person was asked about and has not allowed.
        self._not_allowed: set[str] = set()

    def read(self, file: BinaryIO, start: int = 0, *, is_whole: bool = True) -> Loaded:
        """Read from `start`, where a line begins, to the end.

        Args:
            file: the file.
            start: where to begin, in bytes.
            is_whole: what to tell about that.
        """
        return self.finish(self.read_lines(file, start), is_whole=is_whole)

    def finish(self, end: int, *, is_whole: bool = True) -> Loaded:
        """Take in what is behind the last line end, and tell what was read.

        Args:
            end: where that is.
            is_whole: what to tell about that.
        """
        tail = self._tail
        if isinstance(tail, LongLine):
            tail_bytes, torn_bytes = tail.size_bytes, tail.size_bytes
        else:
            tail_bytes = len(tail)
            torn_bytes = tail_bytes if self._take(tail, end, is_last=True) else 0
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
            not_allowed=frozenset(self._not_allowed),
            bad_lines=bad_lines,
            report=LoadReport(quarantined_lines=len(bad_lines), torn_bytes=torn_bytes),
            size_bytes=end + tail_bytes - torn_bytes,
            lacks_line_end=tail_bytes > torn_bytes,
            is_whole=is_whole,
        )

    def read_lines(self, file: BinaryIO, start: int) -> int:
        """Take in the lines from `start`, where one begins, that have line ends.

        Returns:
            Where the last one of them ends; what is behind it is read no further.
        """
        end = start
        self._tail = b""
        file.seek(start)
        for number, piece in enumerate(starts_of_lines(file), 1):
            if piece.endswith(b"\n"):
                self._take_whole(piece[:-1], number, end)
                end += len(piece)
                continue
            line = whole_line(file, piece)
            if isinstance(line, bytes) and line.endswith(b"\n"):
                self._take_whole(line[:-1], number, end)
                end += len(line)
            elif isinstance(line, LongLine) and line.has_end:
                why = f"it is longer than {LONGEST_LINE_BYTES} bytes, or no object"
                bad = BadLine(number, end, line.size_bytes, line.digest, why)
                self._note_bad(bad, line.start)
                end += line.size_bytes + 1
            else:
                # Somebody may be writing the rest of it right now; that would look like a line.
                self._tail = line
                break
        return end

    @property
    def has_tail(self) -> bool:
        """Whether there is anything behind the last line end."""
        return bool(self._tail)

    @property
    def bad_count(self) -> int:
        """How many lines could not be read."""
        return len(self._bad)

    def copy(self) -> Reader:
        """Return one that goes on apart from this one."""
        other = copy.copy(self)
        other.messages, other.steered, other._bad = self.messages[:], self.steered[:], self._bad[:]
        other.history = self.history.copy()
        other.ordinals, other.offsets = self.ordinals[:], self.offsets[:]
        other._set_aside = self._set_aside.copy()
        other._not_allowed = self._not_allowed.copy()
        return other

    def read_part(self, data: bytes, offset: int) -> None:
        """Take in whole lines, of which bad ones are known already."""
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            self._take_whole(line, number, offset)
            offset += len(line) + 1

    def _take_whole(self, line: bytes, number: int, offset: int) -> None:
        """Take in a line that has a line end, or note that it is bad."""
        if why := self._take(line, offset):
            bad = BadLine(number, offset, len(line), digest_of(line), sys.intern(why))
            self._note_bad(bad, line)

    def _note_bad(self, bad: BadLine, line: bytes) -> None:
        self._bad.append(bad)
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
        elif line.approval is not None:
            self._judge(line.approval)
        elif self.header is None:
            self.header = line.thread

    def _agree(self, record: TurnRecord | CompactedRecord | RewoundRecord) -> None:
        """Count the message lines that there were before a record, though damage hides some."""
        hidden, strange = record.messages - self.history.count, self._strange_lines
        self._strange_lines = 0
        # Which lines hide them, only whoever looks into every line can tell.
        self.is_doubtful |= hidden > 0 and not self._decodes
        # A larger number is itself damage, or somebody took lines out of the file.
        if not 0 < hidden <= strange:
            return
        self.history.add(hidden)
        for index in range(self._gap, len(self.ordinals)):
            self.ordinals[index] += hidden

    def _judge(self, approval: ApprovalRecord) -> None:
        """Note what a call waits for; an outcome that this version does not know allows nothing."""
        if approval.outcome in ALLOWING:
            self._not_allowed.discard(approval.call)
        else:
            self._not_allowed.add(approval.call)

    def _count_turn(self, turn: TurnRecord) -> None:
        self._not_allowed.clear()
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


def _counted(turn: int) -> int:
    return turn if turn <= COUNTED_TURNS else 0


# A record of a newer version, or what damage made of a line's first key.
_UNKNOWN = RecordLine()
