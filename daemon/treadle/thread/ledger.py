"""What is said in one thread: in its file and in memory, the same and in the same order.

Owns that nothing is in memory alone unless its line waits. Refuses to know when a turn begins,
and who may say what.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from treadle.errors import ConfigurationError
from treadle.thread.accepted import accepted, settle
from treadle.thread.blobs import Blobs
from treadle.thread.journal import Journal, Storage
from treadle.thread.lock import ThreadLock
from treadle.thread.memory import Memory
from treadle.thread.message import Message, decode_line, encode_line, now
from treadle.thread.records import Record, SteeredRecord, TurnRecord, encode_record
from treadle.thread.redaction import without_secrets


class Ledger:
    """The lines of a thread, as they are said.

    Args:
        path: its file; None for a thread in memory.

    Attributes:
        path: its file.
        blobs: the bytes that its messages refer to.
        memory: its messages.
        journal: what writes its file, once that was opened.
        turns: the number of the last turn.
        began: the turn that runs now.
        answer: the last text of the model in it, which a compaction may let memory forget.
        steered: what was accepted and not said.
        is_closed: nothing more may be said.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.blobs = Blobs(path)
        self.memory = Memory()
        self.journal: Journal | None = None
        self.turns = 0
        self.began: TurnRecord | None = None
        self.answer = ""
        self.steered: list[SteeredRecord] = []
        self.is_closed = False
        self._on_storage: Callable[[], None] | None = None

    @property
    def storage(self) -> Storage:
        """Whether all that was said is kept."""
        return self.journal.storage if self.journal else "ok"

    def watch_storage(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called whenever `storage` has changed."""
        self._on_storage = watcher
        if self.journal is not None:
            self.journal.on_change = watcher

    def open_journal(self, path: Path, lock: ThreadLock) -> Journal:
        """Write the file that is at the path now, in place of the one that was there."""
        if self.journal is not None:
            self.journal.close()
        before = self.storage
        # Whoever is told of its storage looks at this ledger, which has to have it by then.
        self.journal = Journal.open(path, lock, self.blobs)
        self.journal.on_change = self._on_storage
        if self.storage != before and self._on_storage is not None:
            self._on_storage()
        return self.journal

    def say(self, message: Message) -> Message:
        """Say a message.

        Contract: does not suspend, so that messages on disk and in memory are the same.

        Returns:
            The message as loading would give it back, stamped with its time and turn.

        Raises:
            ConfigurationError: it could never be read back, or the thread is closed.
        """
        self.require_open()
        # The journal has them written before the line that refers to them.
        self.blobs.hold(message)
        turn = self.began.number if self.began else 0
        stamped = msgspec.structs.replace(
            message, at=message.at or now(), turn=message.turn or turn
        )
        line, kept = _as_kept(stamped)
        self.memory.add(kept, self._write(line))
        if kept.role == "assistant":
            self.answer = kept.text
        if self.steered and kept.role == "user":
            settle(self.steered, kept)
        return kept

    def accept(self, message: Message, key: str, asked: str) -> tuple[Message, int | None]:
        """Promise that a message will be said.

        Args:
            message: it.
            key: under which its prompt runs once, as it is kept.
            asked: a digest of that prompt.

        Returns:
            The message, stamped with its time, and where the promise lies, as `record` tells.

        Raises:
            ConfigurationError: it could never be read back, or the thread is closed.
        """
        self.require_open()
        self.blobs.hold(message)
        _, kept = _as_kept(msgspec.structs.replace(message, at=message.at or now()))
        turn = self.began.number if self.began else 0
        plain = msgspec.json.decode(encode_line(kept))
        promise = SteeredRecord(plain, now(), turn, key, asked)
        place = self.record(promise)
        self.steered.append(promise)
        return kept, place

    def say_accepted(self) -> None:
        """Say what was accepted and not said."""
        self.require_open()
        for record in list(self.steered):
            message = accepted(record)
            self.say(msgspec.structs.replace(message, turn=message.turn or record.turn))

    def record(self, record: Record) -> int | None:
        """Write a record; return where its line lies, or None where it waits to be written."""
        offset = self._write(encode_record(record))
        return offset if self.storage == "ok" else None

    async def recover(self) -> None:
        """Try again to keep what could not be kept."""
        if self.journal is not None:
            await self.journal.recover()

    async def flush(self) -> None:
        """Wait until all of it is on the device, unless that is out of order."""
        if self.journal is not None:
            await self.journal.flush()

    def close(self, let_go: Callable[[], None]) -> None:
        """Say nothing more, and let the file go.

        Args:
            let_go: called once nothing can be written any more, as `Journal.close` tells.

        Raises:
            StorageDegraded: not all that was said could be written; the message says where it is.
        """
        self.is_closed = True
        if self.journal is None:
            let_go()
        else:
            self.journal.close(let_go)

    def require_open(self) -> None:
        """Refuse to go on with a thread that was closed.

        Raises:
            ConfigurationError: it was.
        """
        if self.is_closed:
            raise ConfigurationError("the thread was closed; open it again first")

    def _write(self, line: bytes) -> int:
        """Write a line; return where in the file it begins, a hint that nobody trusts unseen."""
        if self.journal is None or self.path is None:
            return 0
        self.journal.append(line)
        try:
            return self.path.stat().st_size - len(line) - 1
        except OSError:
            return 0


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
