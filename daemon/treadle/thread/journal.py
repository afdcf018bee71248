"""The one writer of thread files: whole lines at the end, torn tails set aside.

Owns the descriptor, what could not be written yet, and the promise that the file always ends at
a line's end. Refuses to know what a line says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, Self, TypeAlias

from treadle.errors import ConfigurationError, StorageDegraded, TreadleError
from treadle.thread import unsaved
from treadle.thread.backlog import Backlog
from treadle.thread.files import (
    degraded,
    is_same_file,
    make_folder,
    open_private,
    sync,
    sync_folder,
    unwritable,
    write_whole,
)
from treadle.thread.flush import flusher
from treadle.thread.lock import ThreadLock
from treadle.thread.paths import DAMAGED_SUFFIX, beside

logger = logging.getLogger(__name__)

Storage: TypeAlias = Literal["ok", "degraded"]

# A device that takes longer than this to flush is taken for dead; healthy ones take milliseconds.
FLUSH_TIMEOUT_SECONDS = 30.0


class Journal:
    """A thread's file, open for appending; while it cannot be written its lines wait in memory.

    Make one with `Journal.open`.

    Args:
        path: the thread's file.
        lock: the right to write it.
        on_change: called when `storage` has changed, on the thread that asked for what failed
            or worked.

    Contract: `on_change` must not raise or block.
    """

    def __init__(self, path: Path, lock: ThreadLock, on_change: Callable[[], None]) -> None:
        self._path = path
        self._lock = lock
        self._on_change = on_change
        self._told: Storage = "ok"
        self._descriptor: int | None = None
        self._closed = False
        self._backlog = Backlog()
        # Only one thread writes at a time; whoever finds another one at it leaves it the line.
        self._writing = threading.Lock()
        self._failure: TreadleError | None = None  # of the last write
        self._flush_failure: OSError | None = None  # of the last flush
        # How many of the lines that wait loading the file would make anew.
        self._derived = 0
        # What follows here is half a line that is to go to the side file before we write.
        self._aside_at: int | None = None
        # Where a failed write left half a line that could not be cut off at once.
        self._torn_at: int | None = None
        # Where the file ended when we last touched it: an editor may have saved it since.
        self._size_bytes = 0
        self._is_edited = False

    @classmethod
    def open(
        cls, path: Path, lock: ThreadLock | None = None, on_change: Callable[[], None] = lambda: None
    ) -> Self:
        """Open a thread's file for appending, making it and its folders when they are missing.

        Where that cannot be done now, what is appended waits.

        Args:
            path: the thread's file.
            lock: the right to write it; taken when it is first needed.
            on_change: called when `storage` has changed.

        Raises:
            ThreadUnreadable: it can never be opened.
            ThreadLocked: somebody else has the right to write it.
        """
        journal = cls(path, lock or ThreadLock(path), on_change)
        with contextlib.suppress(OSError):
            journal._size_bytes = path.stat().st_size
        try:
            journal._attach()
        except StorageDegraded as error:
            journal._failure = error
            journal._tell()
        return journal

    @property
    def storage(self) -> Storage:
        """Whether all that was appended is in the file, and all that was flushed on its device."""
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
        self.catch_up()

    def catch_up(self) -> None:
        """Write what waits, as far as that works now."""
        # A line that came while another thread wrote its last one is found by the second look.
        while (self._backlog or self._failure) and self._writing.acquire(blocking=False):
            try:
                self._write_backlog()
                self._failure = None
            except OSError as error:
                self._failure = degraded(self._path, error)
            except TreadleError as error:
                self._failure = error
            finally:
                self._writing.release()
            if self._failure is not None:
                break
        self._tell()

    async def flush(self) -> None:
        """Wait until everything written is on the device; a cancel does not undo it.

        A device that fails, or does not answer within 30 seconds, makes `storage` degraded.
        """
        if self._descriptor is not None:
            try:
                flushing = flusher.flush(self._descriptor)
                flushing.add_done_callback(self._note_flush)
                async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                    await asyncio.wrap_future(flushing)
            except OSError as error:  # TimeoutError is one
                self._flush_failure = error
                logger.warning("%s", degraded(self._path, error).message)
        self._tell()

    async def recover(self) -> None:
        """Write what waits and flush it, without holding up the event loop."""
        await asyncio.to_thread(self.catch_up)
        if self._failure is None:
            await self.flush()

    def end_last_line(self) -> None:
        """Give the last line the line end that a kill kept from it."""
        self.append(b"")

    def set_tail_aside(self, offset: int) -> None:
        """Move what follows `offset` to the `.damaged` file; it is safe there before it is cut.

        Where that cannot be done now, nothing is written before it is done.
        """
        self._aside_at = offset
        self._failure = self._failure or degraded(self._path, OSError("it ends in half a line"))
        self.catch_up()

    def mended(self) -> None:
        """Note that all that waits now would be written again by whoever loads the file anew."""
        self._derived = len(self._backlog)

    def keep_lines_aside(self, places: Iterable[tuple[int, int]]) -> None:
        """Copy lines to the `.damaged` file, each with a line end; they stay in this one as well.

        Args:
            places: where each begins, and how long it is without its line end, in bytes.

        Raises:
            StorageDegraded: they could not be copied.
        """
        try:
            with self._path.open("rb") as file:
                copied = bytearray()
                for offset, size_bytes in places:
                    file.seek(offset)
                    copied += file.read(size_bytes) + b"\n"
            _keep_damaged(beside(self._path, DAMAGED_SUFFIX), bytes(copied))
        except OSError as error:
            raise degraded(self._path, error) from error

    def is_current(self) -> bool:
        """Tell whether what was loaded and appended is the thread; else the file is read anew.

        While something waits, memory is ahead of the file, and the thread goes on from there.

        Raises:
            ThreadLocked: the lock's file was deleted, and somebody else writes the thread.
            StorageDegraded: so much waits that no further turn may begin.
        """
        if self._closed:
            return False
        if self._backlog and self._is_deleted():
            logger.warning("%s was deleted, and with it what waited to be written", self._path)
            self._backlog.clear()
            return False
        if self._is_out_of_reach():
            self.catch_up()
            self._require_room()
            return True
        with contextlib.suppress(StorageDegraded):
            self._lock.ensure()
        self.catch_up()
        if self._failure is not None:
            self._require_room()
            return True
        return self._is_as_we_left_it()

    def close(self) -> None:
        """Close the file; a second call does nothing.

        Raises:
            StorageDegraded: not all of it could be written; the message says where it lies.
        """
        if self._closed:
            return
        self._closed = True
        self.catch_up()
        with self._writing:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)
            if len(self._backlog) > self._derived:
                raise self._kept_elsewhere()

    def _write_backlog(self) -> None:
        """Write every line that waits; what fails leaves the file as it was, if that can be done.

        Raises:
            OSError: a line could not be written; it and those behind it wait.
            TreadleError: the file cannot be opened now, or is somebody else's.
        """
        descriptor = self._descriptor
        if descriptor is None or self._failure is not None:
            descriptor = self._attach()
        if self._aside_at is not None:
            self._move_aside(descriptor, self._aside_at)
        self._cut_torn(descriptor)
        while self._backlog:
            self._write_line(descriptor, self._backlog.first)
            self._backlog.drop_first()
            self._derived = max(0, self._derived - 1)

    def _write_line(self, descriptor: int, line: bytes) -> None:
        """Write one line in one call, behind whatever the file holds.

        Raises:
            OSError: it could not be written.
        """
        end = os.fstat(descriptor).st_size
        # Whoever changed the file may have left half a line, which must not swallow this one.
        self._is_edited |= end != self._size_bytes
        data = line if end == self._size_bytes else b"\n" + line
        self._torn_at = end
        try:
            write_whole(descriptor, data)
        except OSError:
            # When even the cut fails, the next try cuts before it writes.
            with contextlib.suppress(OSError):
                self._cut(descriptor, end)
            raise
        self._torn_at = None
        self._size_bytes = end + len(data)

    def _cut_torn(self, descriptor: int) -> None:
        """Cut off what a failed write left, unless something else stands there by now.

        Raises:
            OSError: it could not be cut.
        """
        if self._torn_at is None:
            return
        os.lseek(descriptor, self._torn_at, os.SEEK_SET)
        line = b"\n" + self._backlog.first
        left = os.read(descriptor, len(line))
        if line.startswith(left) or line[1:].startswith(left):
            self._cut(descriptor, self._torn_at)
        self._torn_at = None

    def _cut(self, descriptor: int, offset: int) -> None:
        os.ftruncate(descriptor, offset)
        self._torn_at = None
        self._size_bytes = offset

    def _move_aside(self, descriptor: int, offset: int) -> None:
        """Do what `set_tail_aside` asked for.

        Raises:
            OSError: it could not be copied, so it was not cut.
        """
        os.lseek(descriptor, offset, os.SEEK_SET)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            _keep_damaged(beside(self._path, DAMAGED_SUFFIX), file.read())
        self._cut(descriptor, offset)
        self._aside_at = None

    def _attach(self) -> int:
        """Return a descriptor of the file that is at the path, with the right to write it.

        Raises:
            StorageDegraded: there is none now.
            ThreadUnreadable: there can never be one.
            ThreadLocked: it is somebody else's.
        """
        if self._descriptor is not None and self._is_out_of_reach():
            return self._descriptor
        self._lock.ensure()
        try:
            if self._descriptor is None or not is_same_file(self._descriptor, self._path):
                self._take_over(*self._open_file())
        except OSError as error:
            raise unwritable(self._path, error) from error
        assert self._descriptor is not None
        return self._descriptor

    def _open_file(self) -> tuple[int, bool]:
        flags = os.O_RDWR | os.O_APPEND
        if self._descriptor is not None and not self._is_deleted():
            # What we wrote is in a file that is away: an empty one would not be the thread.
            return os.open(self._path, flags), False
        make_folder(self._path.parent)
        return open_private(self._path, flags)

    def _take_over(self, descriptor: int, made: bool) -> None:
        """Go on in another file than before, or in the first one."""
        if made:
            sync_folder(self._path.parent)
        old, self._descriptor = self._descriptor, descriptor
        if old is not None:
            os.close(old)
        end = os.fstat(descriptor).st_size
        if self._backlog and self._size_bytes == 0 and end:
            # Somebody began the thread meanwhile, so it has its first line.
            self._backlog.drop_first()

    def _is_deleted(self) -> bool:
        """Tell whether the file we write to has no name any more."""
        if self._descriptor is None:
            return False
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError:
            return False

    def _is_out_of_reach(self) -> bool:
        """Tell whether the folder is away and the file is not: unmounted, or moved elsewhere.

        Then nothing is made anew in its place; it may come back.
        """
        return (
            self._descriptor is not None
            and not self._path.parent.exists()
            and not self._is_deleted()
        )

    def _is_as_we_left_it(self) -> bool:
        return (
            self._descriptor is not None
            and not self._is_edited
            and is_same_file(self._descriptor, self._path)
            and os.fstat(self._descriptor).st_size == self._size_bytes
        )

    def _require_room(self) -> None:
        if self._backlog.is_full and self._failure is not None:
            raise StorageDegraded(
                f"{self._backlog.size_bytes >> 20} MiB wait to be written to {self._path}, and "
                f"more may not; nothing of it is lost. {self._failure.message}",
                path=str(self._path),
            )

    def _kept_elsewhere(self) -> StorageDegraded:
        """Keep what waits where it can be found, and say where; returned, to be raised."""
        why = self._failure.message if self._failure else f"cannot write the thread {self._path}"
        count = len(self._backlog)
        try:
            place = unsaved.keep(self._path, self._kept_from(), self._backlog.whole())
        except OSError:
            logger.critical("the last %d lines of %s are LOST: %s", count, self._path, why)
            return StorageDegraded(
                f"the last {count} lines of the thread {self._path} are lost: they could be "
                f"written neither there nor anywhere else. {why}",
                path=str(self._path),
            )
        logger.error("the last %d lines of %s lie in %s: %s", count, self._path, place, why)
        return StorageDegraded(
            f"the last {count} lines of the thread {self._path} lie in {place} for now and come "
            f"back when it is opened and can be written. {why}",
            path=str(place),
        )

    def _kept_from(self) -> int:
        offsets = (self._aside_at, self._torn_at, self._size_bytes)
        return next(offset for offset in offsets if offset is not None)

    def _note_flush(self, flushing: Future[None]) -> None:
        error = flushing.exception()
        self._flush_failure = error if isinstance(error, OSError) else None

    def _tell(self) -> None:
        if self.storage == self._told:
            return
        self._told = self.storage
        if self._failure is not None:
            logger.warning("it goes on in memory: %s", self._failure.message)
        elif self._told == "ok":
            logger.info("all of %s is written", self._path)
        self._on_change()


def _keep_damaged(path: Path, torn: bytes) -> None:
    """Append bytes to the damaged file, untouched, on a line of their own, and flush them."""
    descriptor, made = open_private(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                torn = b"\n" + torn
        write_whole(descriptor, torn)
        sync(descriptor)
    finally:
        os.close(descriptor)
    if made:
        sync_folder(path.parent)
