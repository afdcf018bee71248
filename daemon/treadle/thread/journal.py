"""The one writer of thread files: each line is written once, or waits in memory until it can be.

Owns the file, what could not be written yet, and whether the thread's storage works. Refuses to
know what a line says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, Self, TypeAlias

from treadle.errors import ConfigurationError, StorageDegraded, TreadleError
from treadle.thread import unsaved
from treadle.thread.backlog import Backlog
from treadle.thread.files import (
    O_BINARY,
    O_CLOEXEC,
    degraded,
    make_folder,
    open_private,
    sync_folder,
    unwritable,
)
from treadle.thread.flush import flusher
from treadle.thread.lock import ThreadLock
from treadle.thread.tail import Tail, keep_lines_aside

logger = logging.getLogger(__name__)

Storage: TypeAlias = Literal["ok", "degraded"]

# A device that takes longer than this to flush is taken for dead; healthy ones take milliseconds.
FLUSH_TIMEOUT_SECONDS = 30.0


def take(path: Path) -> ThreadLock:
    """Take the right to write a thread, and bring back what of it had to be left elsewhere.

    Where neither can be done now, the right is taken once it can.

    Args:
        path: the thread's file, which need not exist.

    Raises:
        ThreadLocked: somebody else has the right.
        ThreadUnreadable: the thread can never be written there.
        StorageDegraded: lines of it lie elsewhere and cannot be brought back now.
    """
    lock = ThreadLock(path)
    try:
        lock.ensure()
    except StorageDegraded:
        if unsaved.find(path):
            raise
        return lock
    try:
        strange = unsaved.bring_back(path)
    except OSError as error:
        lock.release()
        raise degraded(path, error) from error
    for place in strange:
        logger.warning("%s belongs to no thread that is there; look at it and delete it", place)
    return lock


class Journal:
    """A thread's file, open for appending; while it cannot be written its lines wait in memory.

    Make one with `Journal.open`.

    Args:
        path: the thread's file.
        lock: the right to write it.
        on_change: called when `storage` has changed, on the thread of `append`, `is_current`,
            `flush` or `recover`.

    Contract: `on_change` must neither raise nor block.
    """

    def __init__(
        self, path: Path, lock: ThreadLock, on_change: Callable[[], None] | None = None
    ) -> None:
        self._path = path
        self._lock = lock
        self.on_change = on_change
        self._told: Storage = "ok"
        self._tail = Tail(path)
        self._closed = False
        self._backlog = Backlog()
        # How many of the lines that wait loading the file would make anew.
        self._derived = 0
        # Only one thread writes at a time; whoever finds another one at it leaves it the line.
        self._writing = threading.Lock()
        self._failure: TreadleError | None = None  # of the last write
        self._flush_failure: OSError | None = None  # of the last flush
        # Called before any line is written: what lines refer to has to be there first.
        self.before_write: Callable[[], None] = lambda: None

    @classmethod
    def open(
        cls,
        path: Path,
        lock: ThreadLock,
        on_change: Callable[[], None] | None = None,
    ) -> Self:
        """Open a thread's file for appending, making it and its folders when they are missing.

        Where that cannot be done now, what is appended waits.

        Args:
            path: the thread's file.
            lock: the right to write it, taken again whenever it was lost; the caller lets it go.
            on_change: called when `storage` has changed.

        Raises:
            ThreadUnreadable: it can never be opened.
            ThreadLocked: somebody else has the right to write it.
        """
        journal = cls(path, lock, on_change)
        try:
            journal._attach()
        except StorageDegraded as error:
            journal._failure = error
            journal._tell()
        return journal

    @property
    def storage(self) -> Storage:
        """Whether all that was appended is in the file, and what was flushed on its device."""
        is_ok = self._failure is None and self._flush_failure is None
        return "ok" if is_ok else "degraded"

    def append(self, line: bytes) -> None:
        """Write one line, or have it wait where it cannot be written now; `storage` tells which.

        A line that is written is with the operating system when this returns.

        Args:
            line: without its line end, and with none inside.
        """
        if self._closed:
            raise ConfigurationError(f"the thread {self._path} was closed; open it again first")
        self._backlog.add(line + b"\n")
        self._catch_up()
        self._tell()

    def end_last_line(self) -> None:
        """Give the last line the line end that a kill kept from it."""
        self.append(b"")

    def set_tail_aside(self, offset: int) -> None:
        """Move what follows `offset` to the `.damaged` file; it is safe there before it is cut.

        Where that cannot be done now, it is done before anything else is written.
        """
        self._tail.aside_at = offset
        self._failure = self._failure or degraded(self._path, OSError("it ends in half a line"))
        self._catch_up()
        self._tell()

    def keep_lines_aside(self, places: Iterable[tuple[int, int]]) -> None:
        """Copy lines to the `.damaged` file, each with a line end; they stay in this one as well.

        Args:
            places: where each begins, and how long it is without its line end, in bytes.

        Raises:
            StorageDegraded: they could not be copied.
        """
        try:
            keep_lines_aside(self._path, places)
        except OSError as error:
            raise degraded(self._path, error) from error

    def mended(self) -> None:
        """Note that what waits now would be written again by whoever loads the file anew."""
        self._derived = len(self._backlog)

    async def flush(self) -> None:
        """Wait until everything written is on the device; a cancel does not undo it.

        A device that fails, or does not answer within 30 seconds, makes the storage degraded;
        while it is, this waits for nothing, and `recover` does.
        """
        if self.storage == "ok":
            await self._flush()
            self._tell()

    async def recover(self) -> None:
        """Try again what failed, without holding up the event loop."""
        await asyncio.to_thread(self._catch_up)
        if self._failure is None and await asyncio.to_thread(self._renew):
            await self._flush()
        self._tell()

    def is_current(self) -> bool:
        """Tell whether what was loaded and appended is the thread; else the file is read anew.

        While something waits, memory is ahead of the file, and the thread goes on from there.

        Raises:
            ThreadLocked: the lock's file was deleted, and somebody else writes the thread.
            StorageDegraded: so much waits that no further turn may begin.
        """
        if self._closed:
            return False
        if self._tail.is_deleted():
            if self._backlog:
                logger.warning("%s was deleted, and with it what waited to be written", self._path)
            self._backlog.clear()
            return False
        if not self._tail.is_out_of_reach():
            self._require_lock()
        self._catch_up()
        self._tell()
        if self._failure is not None:
            self._require_room(self._failure)
            return True
        return self._tail.is_out_of_reach() or self._tail.is_as_we_left_it()

    def close(self) -> None:
        """Write what waits if that works now, and close the file; a second call does nothing.

        Raises:
            StorageDegraded: not all of it could be written; the message says where it lies.
        """
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self._backlog or self._failure:
                self._try()
            self._tail.close()
            if len(self._backlog) > self._derived:
                raise self._kept_elsewhere()

    def _catch_up(self) -> None:
        """Write what waits, as far as that works now."""
        # A line that came while another thread wrote its last one is found by the second look.
        while (self._backlog or self._failure) and self._writing.acquire(blocking=False):
            try:
                if self._closed or not self._try():
                    break
            finally:
                self._writing.release()

    def _try(self) -> bool:
        """Write everything that waits; return whether that worked."""
        try:
            self._write_backlog()
        except OSError as error:
            self._failure = degraded(self._path, error)
        except TreadleError as error:
            self._failure = error
        else:
            self._failure = None
        return self._failure is None

    def _write_backlog(self) -> None:
        """Write every line that waits, in order.

        Raises:
            OSError: a line could not be written; it and those behind it wait.
            TreadleError: the file cannot be opened now, or is somebody else's.
        """
        if self._failure is not None:
            self._attach()
            self._tail.settle(self._backlog.first)
        self.before_write()
        while self._backlog:
            self._tail.write_line(self._backlog.first)
            self._drop_first()

    def _drop_first(self) -> None:
        self._backlog.drop_first()
        self._derived = max(0, self._derived - 1)

    def _attach(self) -> None:
        """Have the file at the path open, with the right to write it.

        Raises:
            StorageDegraded: that cannot be done now.
            ThreadUnreadable: it can never be done.
            ThreadLocked: somebody else has the right.
        """
        # What is away may come back, and nothing is made in its place; what was deleted takes the
        # rest of its turn with it, and the next one begins the thread afresh.
        if self._tail.is_out_of_reach() or self._tail.is_deleted():
            return
        self._lock.ensure()
        if self._tail.is_there():
            return
        try:
            descriptor, made = self._open_file()
            if made:
                sync_folder(self._path.parent)
            self._tail.switch(descriptor)
            size_bytes = os.fstat(descriptor).st_size
        except OSError as error:
            raise unwritable(self._path, error) from error
        if self._backlog and not self._tail.size_bytes and size_bytes:
            # Somebody began the thread meanwhile, so that it has a first line.
            self._drop_first()

    def _open_file(self) -> tuple[int, bool]:
        flags = os.O_RDWR | os.O_APPEND
        if self._tail.size_bytes:
            # The thread is a file that is away: one that holds only the rest is no thread.
            return os.open(self._path, flags | O_CLOEXEC | O_BINARY), False
        make_folder(self._path.parent)
        return open_private(self._path, flags)

    def _require_lock(self) -> None:
        """Have the right to write; while that cannot be had, nothing is written.

        Raises:
            ThreadLocked: somebody else has it.
        """
        try:
            self._lock.ensure()
        except StorageDegraded as error:
            self._failure = error

    def _require_room(self, failure: TreadleError) -> None:
        if self._backlog.is_full:
            raise StorageDegraded(
                f"{self._backlog.size_bytes >> 20} MiB wait to be written to {self._path} and "
                f"are not lost, but more may not wait. {failure.message}",
                path=str(self._path),
            )

    async def _flush(self) -> None:
        if self._tail.descriptor is None:
            return
        size_bytes = self._tail.size_bytes
        try:
            flushing = flusher.flush(self._tail.descriptor)
            flushing.add_done_callback(self._note_flush)
            async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                await asyncio.wrap_future(flushing)
            self._tail.flushed_bytes = size_bytes
        except OSError as error:  # TimeoutError is one
            self._flush_failure = error

    def _renew(self) -> bool:
        """Have the next flush put on the device what the last one could not."""
        if self._flush_failure is None or isinstance(self._flush_failure, TimeoutError):
            return True
        with self._writing:
            try:
                if not self._closed:
                    self._tail.write_anew()
            except OSError as error:
                self._flush_failure = error
                return False
        return True

    def _note_flush(self, flushing: Future[None]) -> None:
        """Take in how a flush ended, whoever still waits for it."""
        error = flushing.exception()
        self._flush_failure = error if isinstance(error, OSError) else None

    def _kept_elsewhere(self) -> StorageDegraded:
        """Keep what waits where it can be found, and say where; returned, to be raised."""
        why = self._failure.message if self._failure else f"cannot write the thread {self._path}"
        count, lines = len(self._backlog), self._backlog.whole()
        try:
            place = unsaved.keep(self._path, self._tail.whole_bytes, lines)
        except OSError as error:
            told = error.strerror or str(error)
            logger.critical("the last %d lines of %s are LOST: %s", count, self._path, told)
            return StorageDegraded(
                f"the last {count} lines of the thread {self._path} are lost: they could be "
                f"written neither there nor anywhere else ({told}); free some space",
                path=str(self._path),
            )
        logger.error("the last %d lines of %s lie in %s: %s", count, self._path, place, why)
        return StorageDegraded(
            f"the last {count} lines of the thread {self._path} lie in {place} for now, and come "
            f"back when it is opened and can be written. {why}",
            path=str(place),
        )

    def _tell(self) -> None:
        if self.storage == self._told:
            return
        self._told = self.storage
        if self._failure is not None:
            logger.warning("a thread goes on in memory: %s", self._failure.message)
        elif self._flush_failure is not None:
            message = degraded(self._path, self._flush_failure).message
            logger.warning("a device does not keep a thread: %s", message)
        else:
            logger.info("all of %s is written", self._path)
        if self.on_change is not None:
            self.on_change()
