"""A thread, open for writing by this process alone: what was said, on disk before it is heard.

Owns the order of lock, loading, mending and writing. Refuses to know who speaks or why.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec

from treadle.errors import ConfigurationError, ThreadUnreadable
from treadle.thread.files import check_regular
from treadle.thread.journal import Journal
from treadle.thread.lock import ThreadLock
from treadle.thread.message import Message, Usage, decode_line, encode_line, now
from treadle.thread.records import (
    FORMAT_VERSION,
    StopReason,
    ThreadRecord,
    TurnRecord,
    encode_record,
)
from treadle.thread.redaction import without_secrets
from treadle.thread.repair import interrupted_result, unanswered_calls, view
from treadle.thread.replay import Loaded, LoadReport, load


class Thread:
    """The messages of one pair, and the file that keeps them.

    Make one with `Thread.open` or `Thread.in_memory`.

    Attributes:
        path: its file; None for a thread in memory.
        messages: everything that was said, in order; a message's index is its ordinal.
        report: what was wrong with the file when it was last read.
        created: the file was missing or empty when it was last read.
        turns: the number of the last turn.
    """

    def __init__(self, path: Path | None, agent: str = "", instance: str = "") -> None:
        self.path = path
        self.messages: list[Message] = []
        self.report = LoadReport()
        self.created = True
        self.turns = 0
        self._pair = (agent, instance)
        self._turn = 0  # the turn that runs now, which its messages are stamped with
        self._closed = False
        self._lock: ThreadLock | None = None
        self._journal: Journal | None = None

    @classmethod
    def open(cls, path: Path, *, agent: str = "", instance: str = "") -> Self:
        """Open a thread's file for this process alone, mending what a kill left behind.

        It blocks; call it in a worker thread.

        Args:
            path: the file; it and its folders are made when they are missing.
            agent: whose thread this is, for the first line of a new file.
            instance: the other half of the pair.

        Raises:
            ThreadLocked: somebody holds it, in this process or another.
            ThreadUnreadable: there is something that cannot be opened, or was written by a
                newer version; nothing was changed.
            StorageDegraded: mending it failed for want of space or by a fault of the disk.
        """
        path = path.absolute()
        thread = cls(path, agent, instance)
        check_regular(path)
        thread._lock = ThreadLock.acquire(path)
        try:
            thread._read(path)
        except BaseException:
            thread.close()
            raise
        return thread

    @classmethod
    def in_memory(cls, after: Thread | None = None) -> Self:
        """Make a thread that lasts as long as this object; nothing of it is on disk.

        Args:
            after: an earlier one in memory; this one goes on where that ended.
        """
        thread = cls(None)
        if after is not None:
            thread.messages[:] = after.messages
            thread.turns = after.turns
            thread.created = False
        return thread

    def view(self) -> list[Message]:
        """Return what may be sent to a model."""
        return view(self.messages)

    def start_turn(self) -> int:
        """Begin a turn; where the file was deleted or replaced meanwhile, start from what is there.

        Returns:
            The turn's number, from 1.

        Raises:
            ThreadUnreadable: what replaced the file cannot be opened.
            StorageDegraded: the turn could not be recorded, so it did not begin.
        """
        self._require_open()
        if self.path is not None and not (self._journal and self._journal.is_current()):
            self._read(self.path)
        self._record(TurnRecord(self.turns + 1, "start", now()))
        self.turns += 1
        self._turn = self.turns
        return self.turns

    async def append(self, message: Message) -> Message:
        """Say a message: it is with the operating system when this returns.

        Contract: does not suspend between writing and returning, so that messages on disk and
        in memory are the same, in the same order.

        Returns:
            The message as loading would give it back, stamped with its time and turn.

        Raises:
            StorageDegraded: it could not be written, so it was not said.
            ConfigurationError: it could never be read back, or the thread is closed.
        """
        return self._say(message)

    async def end_turn(self, stop_reason: StopReason, usage: Usage, steps: int) -> None:
        """Record how the turn ended, and wait until all of it is on the device.

        Args:
            stop_reason: why it ended.
            usage: the tokens of all its model calls.
            steps: how many model calls it made.

        Raises:
            StorageDegraded: the end could not be recorded or flushed.
            ConfigurationError: no turn is running, or the thread is closed.
        """
        self._require_open()
        if not self._turn:
            raise ConfigurationError("no turn of this thread is running; call start_turn first")
        self._record(TurnRecord(self._turn, "end", now(), stop_reason, usage, steps))
        self._turn = 0
        if self._journal is not None:
            await self._journal.flush()

    def close(self) -> None:
        """Let the file and its lock go; a second call does nothing."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def __del__(self) -> None:
        # An `open` whose caller was cancelled comes back to nobody, and must not hold its lock
        # for the rest of the process. At the interpreter's end the kernel does this.
        if not sys.is_finalizing():
            self.close()

    def _read(self, path: Path) -> None:
        """Take over what is in the file, then make it fit to be written to."""
        loaded = load(path)
        _refuse_newer(path, loaded.header)
        if self._journal is not None:
            self._journal.close()
        self._journal = Journal.open(path)
        self.messages[:] = loaded.messages
        self.turns = loaded.turns
        self.created = loaded.size_bytes == 0 and not loaded.report.torn_bytes
        self.report = loaded.report
        try:
            self._mend(self._journal, loaded)
        except BaseException:
            # A journal that is closed is not current, so the next turn reads and mends again.
            self._journal.close()
            raise

    def _mend(self, journal: Journal, loaded: Loaded) -> None:
        if loaded.report.torn_bytes:
            journal.set_tail_aside(loaded.size_bytes)
        if loaded.lacks_line_end:
            journal.end_last_line()
        if loaded.size_bytes == 0:
            agent, instance = self._pair
            self._record(ThreadRecord(FORMAT_VERSION, agent, instance, now()))
        if loaded.unfinished is not None:
            self._close_interrupted(loaded.unfinished)

    def _close_interrupted(self, turn: int) -> None:
        """End a turn that a kill left open, its calls answered."""
        calls = unanswered_calls(self.messages)
        self._turn = turn
        for call in calls:
            self._say(interrupted_result(call))
        self._record(TurnRecord(turn, "end", now(), "interrupted"))
        self._turn = 0
        self.report = replace(self.report, repaired_calls=len(calls), interrupted_turn=turn)

    def _say(self, message: Message) -> Message:
        self._require_open()
        stamped = msgspec.structs.replace(
            message, at=message.at or now(), turn=message.turn or self._turn
        )
        line, kept = _as_kept(stamped)
        if self._journal is not None:
            self._journal.append(line)
        self.messages.append(kept)
        return kept

    def _record(self, record: ThreadRecord | TurnRecord) -> None:
        if self._journal is not None:
            self._journal.append(encode_record(record))

    def _require_open(self) -> None:
        if self._closed:
            raise ConfigurationError("the thread was closed; open it again first")


def _refuse_newer(path: Path, header: ThreadRecord | None) -> None:
    if header is not None and header.version > FORMAT_VERSION:
        raise ThreadUnreadable(
            f"{path} has format version {header.version} and this Treadle writes version "
            f"{FORMAT_VERSION}; it can still be read, but to go on with it update Treadle",
            path=str(path),
        )


def _as_kept(message: Message) -> tuple[bytes, Message]:
    """Return a message's line, and the message as that line gives it back.

    Raises:
        ConfigurationError: it has no line, or one that could not be read.
    """
    try:
        line = without_secrets(encode_line(message))
        return line, decode_line(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"this message cannot be kept: {error}") from error
