"""A thread, open for writing by this process alone: what was said, on disk before it is heard.

Owns the order of lock, loading, mending and writing. Refuses to know who speaks or why.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec

from treadle.errors import (
    ConfigurationError,
    NoSuchOrdinal,
    StorageDegraded,
    ThreadUnreadable,
)
from treadle.thread.blobs import Blobs
from treadle.thread.files import check_regular
from treadle.thread.fork import last_finished
from treadle.thread.history import History
from treadle.thread.journal import Journal, Storage
from treadle.thread.lock import ThreadLock
from treadle.thread.memory import Memory
from treadle.thread.message import Message, Usage, decode_line, encode_line, now
from treadle.thread.obstacles import is_obstructed
from treadle.thread.opening import take
from treadle.thread.outcomes import TurnKeys, TurnOutcome, kept_key
from treadle.thread.reading import Reading
from treadle.thread.records import (
    FORMAT_VERSION,
    CompactedRecord,
    Record,
    RewoundRecord,
    SetAsideRecord,
    SteeredRecord,
    StopReason,
    ThreadRecord,
    TurnRecord,
    encode_record,
)
from treadle.thread.redaction import without_secrets
from treadle.thread.repair import interrupted_result, unanswered_calls, view
from treadle.thread.replay import BadLine, Loaded, LoadReport, accepted, load, settle
from treadle.thread.resume import Resume, resume

logger = logging.getLogger(__name__)

# Digests in one record: its line stays of a length that is read at once.
DIGESTS_PER_RECORD = 1000


class Thread:
    """The messages of one pair, and the file that keeps them.

    Make one with `Thread.open` or `Thread.in_memory`.

    Attributes:
        path: its file; None for a thread in memory.
        blobs: the bytes that its messages refer to.
        messages: what was said and is in memory, in order: all of it, but for what a compaction
            gave up. Ordinals are `reading`'s to tell.
        report: what was wrong with the file when it was last read.
        created: the file was missing or empty when it was last read.
        turns: the number of the last turn.
    """

    def __init__(self, path: Path | None, agent: str = "", instance: str = "") -> None:
        self.path = path
        self.blobs = Blobs(path)
        self.report = LoadReport()
        self.created = True
        self.turns = 0
        self._on_storage: Callable[[], None] | None = None
        self._pair = (agent, instance)
        self._memory = Memory()
        self._began: TurnRecord | None = None  # the turn that runs now
        self._first = 0  # the ordinal of the first message that the last turn says, or would
        self._steered: list[SteeredRecord] = []
        self._keys = TurnKeys(path)
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
            StorageDegraded: it cannot be read now by a fault of the disk, or its last lines lie
                elsewhere and cannot be brought back yet.
        """
        path = path.absolute()
        thread = cls(path, agent, instance)
        check_regular(path)
        thread._lock = take(path)
        try:
            thread._read(path, thread._lock)
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
            thread._memory.copy(after._memory)
            thread._keys.take(after._keys)
            thread.blobs = after.blobs
            thread.turns = after.turns
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
        if at is None and self._began is not None:
            at = last_finished(self._memory.history, self._first, self._memory.numbered())
        if at is not None:
            copied.rewind(at)
        return copied

    @property
    def storage(self) -> Storage:
        """Whether all that was said is kept; while it is not, the thread goes on in memory."""
        return self._journal.storage if self._journal else "ok"

    def watch_storage(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called whenever `storage` has changed.

        Contract: it must neither raise nor block.
        """
        self._on_storage = watcher
        if self._journal is not None:
            self._journal.on_change = watcher

    async def recover(self) -> None:
        """Try again to keep what could not be kept."""
        if self._journal is not None:
            await self._journal.recover()

    @property
    def messages(self) -> list[Message]:
        """What was said and is in memory; to be read."""
        return self._memory.messages

    @property
    def count(self) -> int:
        """How many message lines there are, in memory or not: the next one's ordinal."""
        return self._memory.history.count

    @property
    def compaction(self) -> CompactedRecord | None:
        """The compaction that counts, for the next one to build on; to be read."""
        return self._memory.history.compaction

    def view(self) -> list[Message]:
        """Return what may be sent to a model: the conversation, compacted where it is."""
        spoken = self._memory.history.spoken(self._memory.numbered())
        return view(message for _, _, message in spoken)

    def reading(self) -> Reading:
        """Return a snapshot, for whoever wants to read the thread; it may be read anywhere."""
        return self._memory.reading(self.path)

    def turn_ordinals(self, turn: int) -> tuple[int, int] | None:
        """Return the ordinals of the last turn's first and last message.

        Args:
            turn: its number; there is nothing to tell of earlier ones.
        """
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
        self._require_open()
        if (
            self.path is not None
            and self._lock is not None
            and not (self._journal and self._journal.is_current())
        ):
            self._read(self.path, self._lock)
        record = TurnRecord(
            self.turns + 1, "start", now(), key=kept_key(key), asked=asked, messages=self.count
        )
        self._keys.begin(self._place(self._record(record)), key, asked)
        self.turns += 1
        self._began, self._first = record, self.count
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
        return self._say(message)

    async def end_turn(self, stop_reason: StopReason, usage: Usage, steps: int) -> None:
        """Record how the turn ended, and wait until all of it is on the device.

        Args:
            stop_reason: why it ended.
            usage: the tokens of all its model calls.
            steps: how many model calls it made.

        Raises:
            ConfigurationError: no turn is running, or the thread is closed.
        """
        self._require_open()
        if self._began is None:
            raise ConfigurationError("no turn of this thread is running; call start_turn first")
        self._say_accepted()
        record = TurnRecord(self._began.number, "end", now(), stop_reason, usage, steps)
        self._record(record)
        self._keys.end(self._began, record, self._memory.since(self._first))
        self._began = None
        if self._journal is not None:
            await self._journal.flush()

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
        self._require_open()
        self.blobs.hold(message)
        _, kept = _as_kept(msgspec.structs.replace(message, at=message.at or now()))
        turn = self._began.number if self._began else 0
        plain = msgspec.json.decode(encode_line(kept))
        record = SteeredRecord(plain, now(), turn, kept_key(key), asked)
        self._keys.note(self._place(self._record(record)), key, asked)
        self._steered.append(record)
        return kept

    def say_accepted(self) -> None:
        """Say what was accepted for a turn that will not begin."""
        self._require_open()
        self._say_accepted()

    def rewind(self, to: int) -> int:
        """End the conversation at an ordinal; what is beyond it stays in the file.

        A compaction of anything beyond it is undone. It may block.

        Args:
            to: the last ordinal that the conversation keeps; -1 empties it.

        Returns:
            How many messages the conversation holds.

        Raises:
            NoSuchOrdinal: the conversation does not hold that message.
            ConfigurationError: a turn is running, or the thread is closed.
        """
        self._require_open()
        if self._began is not None:
            raise ConfigurationError("a turn is running; rewind the thread when it has ended")
        if to != -1:
            self._require_held(to)
        history = self._memory.history
        if to != history.last:
            undone = history.compaction is not None and history.compaction.through > to
            self._record(RewoundRecord(to, now(), history.count))
            history.rewind(to)
            if undone and not self._memory.is_whole:
                self._read_given_up(to)
        return self._memory.history.held_count()

    def record_compaction(self, record: CompactedRecord) -> CompactedRecord:
        """Let a compaction count from now on; it blocks as long as reading what is kept takes.

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
        self._require_open()
        self._require_held(record.through)
        _check(record)
        history = self._memory.history
        counts = msgspec.structs.replace(
            record, at=record.at or now(), messages=history.count, resume=None
        )
        after = history.copy()
        after.compact(counts)
        if not self._memory.has_all_of(after):
            raise NoSuchOrdinal("a compaction cannot bring back what an earlier one gave up")
        self._record(msgspec.structs.replace(counts, resume=self._hints(after)))
        history.compact(counts)
        if self.path is not None:
            self._memory.give_up()
        return counts

    def close(self) -> None:
        """Let the file and its lock go; a second call does nothing.

        Raises:
            StorageDegraded: not all that was said could be written; the message says where it is.
        """
        self._closed = True
        if self._lock is None:
            return
        if self._journal is None:
            self._lock.release()
            return
        # The right to write is kept as long as a write hangs: who takes it next brings back what
        # was left elsewhere, and must find in the file whatever is still to come of it.
        self._journal.close(self._lock.release)

    def __del__(self) -> None:
        # An `open` whose caller was cancelled comes back to nobody, and must not hold its lock
        # for the rest of the process. At the interpreter's end the kernel does this.
        if not sys.is_finalizing():
            with contextlib.suppress(StorageDegraded):
                self.close()

    def _read(self, path: Path, lock: ThreadLock) -> None:
        """Take over what is in the file, then make it fit to be written to."""
        # What has come to lie there under a thread that was open is no newer version of it: the
        # thread begins afresh, in memory until that is moved away.
        is_gone = self._journal is not None and is_obstructed(path)
        loaded = Loaded() if is_gone else resume(path)
        _refuse_newer(path, loaded.header)
        if self._journal is not None:
            self._journal.close()
        self._journal = Journal.open(path, lock, self.blobs, self._on_storage)
        self._memory.take(loaded)
        self._steered = loaded.steered
        self._keys.forget()
        self.turns = loaded.turns
        self.created = loaded.size_bytes == 0 and not loaded.report.torn_bytes
        self.report = loaded.report
        try:
            self._mend(self._journal, loaded)
        except BaseException:
            # A journal that is closed is not current, so the next turn reads and mends again.
            self._journal.close()
            raise
        self._journal.mended()

    def _mend(self, journal: Journal, loaded: Loaded) -> None:
        if loaded.report.torn_bytes:
            journal.set_tail_aside(loaded.size_bytes)
        if loaded.lacks_line_end:
            journal.end_last_line()
        if loaded.size_bytes == 0:
            agent, instance = self._pair
            self._record(ThreadRecord(FORMAT_VERSION, agent, instance, now()))
        if loaded.bad_lines:
            self._set_aside(journal, loaded.bad_lines)
        if loaded.began is not None:
            self._close_interrupted(loaded.began)
        else:
            self._say_accepted()

    def _set_aside(self, journal: Journal, lines: list[BadLine]) -> None:
        """Have bad lines safe in the side file, then note that they are.

        Where they cannot be copied now they stay where they are, and the next load finds them.
        """
        try:
            journal.keep_lines_aside([(line.offset, line.size_bytes) for line in lines])
        except StorageDegraded as error:
            logger.warning("bad lines could not be copied: %s", error.message)
            return
        for start in range(0, len(lines), DIGESTS_PER_RECORD):
            counts: dict[str, int] = {}
            for line in lines[start : start + DIGESTS_PER_RECORD]:
                counts[line.digest] = counts.get(line.digest, 0) + 1
            self._record(SetAsideRecord(counts, now()))

    def _close_interrupted(self, began: TurnRecord) -> None:
        """End a turn that a kill left open, its calls answered."""
        calls = unanswered_calls(self.messages)
        self._began = began
        for call in calls:
            self._say(interrupted_result(call))
        self._say_accepted()
        self._record(TurnRecord(began.number, "end", now(), "interrupted"))
        self._began = None
        self.report = replace(self.report, repaired_calls=len(calls), interrupted_turn=began.number)

    def _say_accepted(self) -> None:
        """Say what was accepted and not said."""
        for record in list(self._steered):
            message = accepted(record)
            self._say(msgspec.structs.replace(message, turn=message.turn or record.turn))

    def _read_given_up(self, to: int) -> None:
        """Have in memory again what a compaction gave up that was undone."""
        assert self.path is not None, "a thread without a file gives nothing up"
        count = self.count
        self._memory.take(load(self.path))
        # The file lags behind where it cannot be written now.
        history = self._memory.history
        history.rewind(to)
        history.count = max(count, history.count)

    def _hints(self, after: History) -> Resume | None:
        """Tell what the thread can be resumed with once a compaction counts."""
        if self.path is None:
            return None
        try:
            spans = self._memory.spans(self.path, after)
        except (OSError, ValueError, ThreadUnreadable, StorageDegraded):
            return None
        return Resume(self.turns, after.held, spans, self._began, self._steered)

    def _say(self, message: Message) -> Message:
        self._require_open()
        # The journal has them written before the line that refers to them.
        self.blobs.hold(message)
        turn = self._began.number if self._began else 0
        stamped = msgspec.structs.replace(
            message, at=message.at or now(), turn=message.turn or turn
        )
        line, kept = _as_kept(stamped)
        self._memory.add(kept, self._write(line))
        if self._steered and kept.role == "user":
            settle(self._steered, kept)
        return kept

    def _record(self, record: Record) -> int:
        return self._write(encode_record(record))

    def _write(self, line: bytes) -> int:
        """Write a line; return where in the file it begins, a hint that nobody trusts unseen."""
        if self._journal is None or self.path is None:
            return 0
        self._journal.append(line)
        try:
            return self.path.stat().st_size - len(line) - 1
        except OSError:
            return 0

    def _place(self, offset: int) -> int | None:
        """Return where a line lies; None where it waits to be written."""
        return offset if self.storage == "ok" else None

    def _require_held(self, ordinal: int) -> None:
        if not self._memory.history.holds(ordinal):
            raise NoSuchOrdinal(
                f"the conversation holds no message {ordinal}; "
                "read the session to see which ordinals it has"
            )

    def _require_open(self) -> None:
        if self._closed:
            raise ConfigurationError("the thread was closed; open it again first")


def _check(record: CompactedRecord) -> None:
    """Refuse a compaction that contradicts itself.

    Raises:
        ConfigurationError: it does.
    """
    before = -1
    for first, last in record.keep:
        if not before < first <= last <= record.through:
            raise ConfigurationError(
                "a compaction keeps ranges of ordinals that rise and end at its `through`"
            )
        before = last
    kept = History(record.through + 1, list(record.keep))
    if not all(kept.holds(ordinal) for ordinal in record.rewritten):
        raise ConfigurationError("a compaction rewrites only what it keeps")


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
