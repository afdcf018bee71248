"""A thread, open for writing by this process alone: what was said, on disk before it is heard.

Owns what may be done to a thread, and its turns. Refuses to know who speaks or why, how a file
is mended and how lines reach it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Self

from treadle.errors import ConfigurationError, StorageDegraded
from treadle.thread import changing
from treadle.thread.files import check_regular
from treadle.thread.fork import last_finished
from treadle.thread.history import Placed
from treadle.thread.journal import Storage
from treadle.thread.ledger import Ledger
from treadle.thread.loaded import LoadReport
from treadle.thread.lock import ThreadLock
from treadle.thread.memory import Mark
from treadle.thread.mending import take_over
from treadle.thread.message import Message, Usage, now
from treadle.thread.opening import take
from treadle.thread.outcomes import TurnKeys, TurnOutcome, kept_key
from treadle.thread.reading import Reading
from treadle.thread.records import (
    ALLOWING,
    FORMAT_VERSION,
    ApprovalRecord,
    CompactedRecord,
    Parent,
    StopReason,
    ThreadRecord,
    TurnRecord,
)
from treadle.thread.redaction import approval_without_secrets
from treadle.thread.repair import view


class Thread:
    """The messages of one pair, and the file that keeps them.

    Make one with `Thread.open` or `Thread.in_memory`.

    Attributes:
        path: its file; None for a thread in memory.
        blobs: the bytes that its messages refer to.
        report: what was wrong with the file when it was last read.
        created: the file was missing or empty when it was last read.
    """

    def __init__(self, path: Path | None, header: ThreadRecord | None = None) -> None:
        self.path = path
        self.report = LoadReport()
        self.created = True
        self._header = header or ThreadRecord(FORMAT_VERSION)
        self._ledger = Ledger(path)
        self.blobs = self._ledger.blobs
        self._keys = TurnKeys(path)
        self._first = 0  # the ordinal of the first message that the last turn says, or would
        self._lock: ThreadLock | None = None

    @classmethod
    def open(
        cls, path: Path, *, agent: str = "", instance: str = "", parent: Parent | None = None
    ) -> Self:
        """Open a thread's file for this process alone, mending what a kill left behind.

        It blocks; call it in a worker thread.

        Args:
            path: the file; it and its folders are made when they are missing.
            agent: whose thread this is, for the first line of a new file.
            instance: the other half of the pair.
            parent: in whose turn a sub-agent begins it; for the first line too.

        Raises:
            ThreadLocked: somebody holds it, in this process or another.
            ThreadUnreadable: there is something that cannot be opened, or was written by a
                newer version; nothing was changed.
            StorageDegraded: it cannot be read now by a fault of the disk, or its last lines lie
                elsewhere and cannot be brought back yet.
        """
        path = path.absolute()
        thread = cls(path, ThreadRecord(FORMAT_VERSION, agent, instance, parent=parent))
        check_regular(path)
        thread._lock = take(path)
        try:
            thread._read()
        except BaseException:
            with contextlib.suppress(StorageDegraded):
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
            thread._ledger.memory.copy(after._ledger.memory)
            thread.blobs = thread._ledger.blobs = after.blobs
            thread._ledger.turns = after.turns
            thread._keys.take(after._keys)
            thread.created = False
        return thread

    def copy_in_memory(self, at: int | None = None) -> Thread:
        """Copy the conversation of a thread in memory, as `fork` does with a file.

        Keys of prompts stay with this one.

        Args:
            at: the last ordinal to copy; the end of the conversation if absent, or of the last
                step that is finished where a turn is running.

        Raises:
            NoSuchOrdinal: the conversation does not hold `at`.
        """
        copied = Thread.in_memory(after=self)
        copied._keys.forget()
        memory = copied._ledger.memory
        if at is None and self._ledger.began is not None:
            at = last_finished(memory.history, self._first, memory.numbered())
        if at is not None:
            memory.history.require_held(at)
            memory.history.rewind(at)
        return copied

    @property
    def storage(self) -> Storage:
        """Whether all that was said is kept; while it is not, the thread goes on in memory."""
        return self._ledger.storage

    def watch_storage(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called whenever `storage` has changed.

        Contract: it must neither raise nor block.
        """
        self._ledger.watch_storage(watcher)

    async def recover(self) -> None:
        """Try again to keep what could not be kept."""
        await self._ledger.recover()

    @property
    def turns(self) -> int:
        """The number of the last turn."""
        return self._ledger.turns

    @property
    def messages(self) -> list[Message]:
        """What was said, in order, but for what a compaction gave up; to be read."""
        return self._ledger.memory.messages

    @property
    def count(self) -> int:
        """How many message lines there are, in memory or not: the next one's ordinal."""
        return self._ledger.memory.history.count

    @property
    def compaction(self) -> CompactedRecord | None:
        """The compaction that counts, for the next one to build on; to be read."""
        return self._ledger.memory.history.compaction

    def view(self) -> list[Message]:
        """Return what may be sent to a model: the conversation, compacted where it is."""
        spoken = self._ledger.memory.history.spoken(self._ledger.memory.numbered())
        return view(message for _, _, message in spoken)

    def placed(self) -> list[Placed]:
        """Return what `view` is made of, piece by piece: what a compaction builds on."""
        return self._ledger.memory.history.view(self._ledger.memory.numbered())

    def gained(self, since: Mark | None) -> tuple[Mark, list[Placed] | None]:
        """Tell what `placed` has gained since a mark, None where more changed; and mark it now."""
        return self._ledger.memory.gained(since)

    @property
    def last(self) -> int:
        """The ordinal at which the conversation ends; -1 where it is empty."""
        return self._ledger.memory.history.last

    def as_said(self, ordinals: Collection[int]) -> list[Placed]:
        """Return messages of the view as they were said, before anything was rewritten."""
        memory = self._ledger.memory
        numbered = ((at, message) for at, message in memory.numbered() if at in ordinals)
        return list(memory.history.place(numbered))

    def reading(self) -> Reading:
        """Return a snapshot, for whoever wants to read the thread; it may be read anywhere."""
        return self._ledger.memory.reading(self.path)

    def turn_ordinals(self, turn: int) -> tuple[int, int] | None:
        """Return the ordinals of a turn's first and last message, if it is the last turn."""
        if turn != self.turns or self.count <= self._first:
            return None
        return self._first, self.count - 1

    def start_turn(self, key: str = "", asked: str = "") -> int:
        """Begin a turn; where the file was deleted or replaced meanwhile, start from what is there.

        Args:
            key: under which its prompt runs once, for `outcome_of`.
            asked: a digest of that prompt, for whoever compares it.

        Returns:
            The turn's number, from 1.

        Raises:
            ThreadUnreadable: what replaced the file cannot be opened.
            ThreadLocked: the lock's file was deleted, and somebody else writes the thread.
            StorageDegraded: so much waits to be written that no further turn may begin.
        """
        self._ledger.require_open()
        journal = self._ledger.journal
        if journal is None or not journal.is_current():
            self._read()
        record = TurnRecord(
            self.turns + 1, "start", now(), key=kept_key(key), asked=asked, messages=self.count
        )
        self._keys.begin(self._ledger.record(record), key, asked)
        self._ledger.turns += 1
        self._ledger.began, self._ledger.answer, self._first = record, "", self.count
        return self.turns

    def knows_key(self, key: str) -> bool | None:
        """Tell whether a turn had this key; None where the file has to be looked through first."""
        return self._keys.knows(key)

    def outcome_of(self, key: str) -> TurnOutcome | None:
        """Return what the last turn under a key came to; it may block.

        Returns:
            None where no turn had this key, the last one ended with an error, or it runs.

        Raises:
            ThreadUnreadable: the file cannot be read.
        """
        return self._keys.outcome_of(key)

    async def append(self, message: Message) -> Message:
        """Say a message: it is with the operating system when this returns.

        While the storage is degraded it waits in memory instead, in order.

        Contract: does not suspend between writing and returning, so that messages on disk and
        in memory are the same, in the same order.

        Returns:
            The message as loading would give it back, stamped with its time and turn.

        Raises:
            ConfigurationError: it could never be read back, or the thread is closed.
        """
        return self._ledger.say(message)

    async def end_turn(self, stop_reason: StopReason, usage: Usage, steps: int) -> None:
        """Record how the turn ended, and wait until all of it is on the device.

        Args:
            stop_reason: why it ended.
            usage: the tokens of all its model calls.
            steps: how many model calls it made.

        Raises:
            ConfigurationError: no turn is running, or the thread is closed.
        """
        ledger = self._ledger
        ledger.require_open()
        if ledger.began is None:
            raise ConfigurationError("no turn of this thread is running; call start_turn first")
        ledger.say_accepted()
        record = TurnRecord(ledger.began.number, "end", now(), stop_reason, usage, steps)
        ledger.record(record)
        self._keys.end(ledger.began, record, self.count - self._first, ledger.answer)
        ledger.began = None
        await ledger.flush()

    def accept(self, message: Message, key: str = "", asked: str = "") -> Message:
        """Promise that a message will be said in this turn: a kill does not lose it.

        Append what this returns, and not what was given: its line is told by its time. What was
        not appended when the turn ends is appended then, and what a kill left is when the thread
        is opened again.

        Args:
            message: what is to be said.
            key: under which its prompt runs once; only while a turn is running.
            asked: a digest of that prompt.

        Returns:
            The message, stamped with its time.

        Raises:
            ConfigurationError: it could never be read back, or the thread is closed.
        """
        kept, place = self._ledger.accept(message, kept_key(key), asked)
        self._keys.note(place, key, asked)
        return kept

    def say_accepted(self) -> None:
        """Say what was accepted for a turn that will not begin."""
        self._ledger.say_accepted()

    async def record_approval(self, record: ApprovalRecord) -> bool:
        """Keep that a person is asked about a call, or what came of it.

        That it may run is on the device when this returns; nothing else suspends.

        Returns:
            Whether it is kept.

        Raises:
            ConfigurationError: the thread is closed.
        """
        self._ledger.require_open()
        self._ledger.record(approval_without_secrets(record))
        if record.outcome in ALLOWING:
            await self._ledger.flush()
        return self.storage == "ok"

    async def rewind(self, to: int) -> int:
        """End the conversation at an ordinal; what is beyond it stays in the file.

        A compaction of anything beyond it is undone. It is on the device when this returns.

        Contract: nothing else is asked of the thread meanwhile but to be read.

        Args:
            to: the last ordinal that the conversation keeps; -1 empties it.

        Returns:
            How many messages the conversation holds.

        Raises:
            NoSuchOrdinal: the conversation does not hold that message.
            ConfigurationError: a turn is running, or the thread is closed.
            StorageDegraded, ThreadUnreadable: what a compaction gave up cannot be read again now.
        """
        self._ledger.require_open()
        if self._ledger.began is not None:
            raise ConfigurationError("a turn is running; rewind the thread when it has ended")
        await changing.rewind(self._ledger, to)
        return self._ledger.memory.history.held_count()

    async def record_compaction(self, record: CompactedRecord) -> CompactedRecord:
        """Let a compaction count from now on; it is on the device when this returns.

        Contract: it counts before this suspends; until then it blocks, as long as reading what
        is kept takes.

        Args:
            record: what it puts in the place of what; time and hints are filled in here. Texts
                and notes of an earlier one that it does not repeat are gone from the view.

        Returns:
            The record as it counts.

        Raises:
            NoSuchOrdinal: the conversation does not hold its `through`, or it shows what an
                earlier compaction gave up.
            ConfigurationError: it contradicts itself, or the thread is closed.
        """
        self._ledger.require_open()
        return await changing.compact(self._ledger, record)

    def close(self) -> None:
        """Let the file and its lock go; a second call does nothing.

        Raises:
            StorageDegraded: not all that was said could be written; the message says where it is.
        """
        # The right to write is kept as long as a write hangs: who takes it next brings back what
        # was left elsewhere, and must find in the file whatever is still to come of it.
        self._ledger.close(lambda: self._lock.release() if self._lock else None)

    def __del__(self) -> None:
        # An `open` whose caller was cancelled comes back to nobody, and must not hold its lock
        # for the rest of the process. At the interpreter's end the kernel does this.
        if not sys.is_finalizing():
            with contextlib.suppress(StorageDegraded):
                self.close()

    def _read(self) -> None:
        """Start from the file that is there; a thread in memory has none."""
        if self.path is None or self._lock is None:
            return
        found = take_over(self._ledger, self.path, self._lock, self._header)
        self._keys.forget(found.size_bytes)
        self.created, self.report = found.is_new, found.report
