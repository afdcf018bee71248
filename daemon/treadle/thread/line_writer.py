"""Lines on their way to a thread's file: each is written once, in order, or waits until it can be.

Owns the file, what could not be written yet, and which thread of this process writes. Refuses to
know what a line says, and whom a failure interests.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from treadle.errors import StorageDegraded, TreadleError
from treadle.thread.backlog import BACKLOG_BYTES, Backlog
from treadle.thread.blobs import Blobs
from treadle.thread.files import (
    degraded,
    make_folder,
    open_existing,
    open_private,
    sync_folder,
    unwritable,
)
from treadle.thread.leaving import leave
from treadle.thread.lock import ThreadLock
from treadle.thread.tail import Tail

# A close tries for so long to write what waits. It has to leave a session's close, of which it is
# a part, the time to keep that elsewhere; a device that takes longer may never answer.
CLOSE_WRITE_SECONDS = 1.0


class LineWriter:
    """Writes what is added, as far as that works.

    Args:
        path: the thread's file.
        lock: the right to write it.
        blobs: the bytes that lines refer to, which are written before them.

    Attributes:
        tail: the end of the file.
        failure: of the last write; while there is one, what is added waits.
        is_closed: nothing more is written, but for a line that hangs in the system.
    """

    def __init__(self, path: Path, lock: ThreadLock, blobs: Blobs) -> None:
        self.tail = Tail(path)
        self.failure: TreadleError | None = None
        self.is_closed = False
        self._path = path
        self._lock = lock
        self._blobs = blobs
        self._backlog = Backlog()
        # How many of the lines that wait loading the file would make anew.
        self._derived = 0
        # Only one thread writes at a time; whoever finds another one at it leaves it the line.
        self._writing = threading.Lock()
        # What is to be done once nothing can be written any more.
        self._at_last: list[Callable[[], None]] = []

    @property
    def waits(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._backlog)

    def add(self, line: bytes) -> None:
        """Write a line, with its line end, or have it wait behind the others."""
        self._backlog.add(line)
        self.catch_up()

    def mended(self) -> None:
        """Note that what waits now would be written again by whoever loads the file anew."""
        self._derived = len(self._backlog)

    def forget(self) -> None:
        """Let go of what waits: the thread it belongs to was deleted."""
        self._backlog.clear()

    def catch_up(self) -> None:
        """Write what waits, as far as that works now."""
        # A line that came while another thread wrote its last one is found by the second look.
        while (self._backlog or self.failure) and self._writing.acquire(blocking=False):
            try:
                if self.is_closed or not self._try():
                    break
            finally:
                self._writing.release()
        self._let_go_if_still()

    def change(self, work: Callable[[], None]) -> None:
        """Change the file while nobody writes; nothing is done once it is closed.

        Raises:
            OSError: as `work` does.
        """
        try:
            with self._writing:
                if not self.is_closed:
                    work()
        finally:
            self._let_go_if_still()

    def attach(self) -> None:
        """Have the file at the path open, with the right to write it.

        Raises:
            StorageDegraded: that cannot be done now.
            ThreadUnreadable: it can never be done.
            ThreadLocked: somebody else has the right.
        """
        # What is away may come back, and nothing is made in its place; what was deleted takes the
        # rest of its turn with it, and the next one begins the thread afresh.
        if self.tail.is_out_of_reach() or self.tail.is_deleted():
            return
        self._lock.ensure()
        if self.tail.is_there():
            return
        try:
            descriptor, made = self._open_file()
            if made:
                sync_folder(self._path.parent)
            self.tail.switch(descriptor)
            size_bytes = os.fstat(descriptor).st_size
        except OSError as error:
            raise unwritable(self._path, error) from error
        if self._backlog and not self.tail.size_bytes and size_bytes:
            # Somebody began the thread meanwhile, so that it has a first line.
            self._drop_first()

    def require_lock(self) -> None:
        """Have the right to write; while that cannot be had, nothing is written.

        Raises:
            ThreadLocked: somebody else has it.
        """
        try:
            self._lock.ensure()
        except StorageDegraded as error:
            self.failure = error

    def require_room(self, failure: TreadleError) -> None:
        """Refuse to go on where so much waits that no further turn may begin.

        Args:
            failure: why it waits.

        Raises:
            StorageDegraded: so much waits.
        """
        waiting_bytes = self._backlog.size_bytes + self._blobs.held_bytes
        if waiting_bytes >= BACKLOG_BYTES:
            raise StorageDegraded(
                f"{waiting_bytes >> 20} MiB wait to be written to {self._path} and "
                f"are not lost, but more may not wait. {failure.message}",
                path=str(self._path),
            )

    def close(self, let_go: Callable[[], None]) -> None:
        """Write what waits if that works within a second, and close the file.

        Where the device does not answer, what waits is left elsewhere; the file is then closed
        when it does answer, whatever becomes of the line that it has. A second call writes
        nothing.

        Args:
            let_go: called once nothing can be written any more, which is mostly before this
                returns. Contract: it must neither raise nor block.

        Raises:
            StorageDegraded: not all of it could be written; the message says where it lies.
        """
        try:
            if not self.is_closed:
                self._end()
        finally:
            self._at_last.append(let_go)
            self._let_go_if_still()

    def _try(self) -> bool:
        """Write everything that waits; return whether that worked."""
        try:
            self._write_backlog()
        except OSError as error:
            self.failure = degraded(self._path, error)
        except TreadleError as error:
            self.failure = error
        else:
            self.failure = None
        return self.failure is None

    def _write_backlog(self) -> None:
        """Write every line that waits, in order.

        Raises:
            OSError: a line could not be written; it and those behind it wait.
            TreadleError: the file cannot be opened now, or is somebody else's.
        """
        if self.failure is not None:
            self.attach()
            self.tail.settle(self._backlog.first)
        elif self.tail.is_replaced():
            # An editor that saves in the middle of a turn puts another file in its place.
            self.attach()
        self._blobs.write()
        while self._backlog and not self.is_closed:
            self.tail.write_line(self._backlog.first)
            self._drop_first()

    def _drop_first(self) -> None:
        self._backlog.drop_first()
        self._derived = max(0, self._derived - 1)

    def _open_file(self) -> tuple[int, bool]:
        flags = os.O_RDWR | os.O_APPEND
        if self.tail.size_bytes:
            # The thread is a file that is away: one that holds only the rest is no thread.
            return open_existing(self._path, flags), False
        make_folder(self._path.parent)
        return open_private(self._path, flags)

    def _end(self) -> None:
        hangs = self._hangs_at_last()
        # From here on at most the line that hangs is still written.
        self.is_closed = True
        # Asked before the lines: one that is written in between is then found where it lies.
        size_bytes = self.tail.whole_bytes
        lines = self._backlog.lines()
        if len(lines) <= self._derived:
            return
        why = degraded(self._path, TimeoutError()) if hangs else self.failure
        raise leave(
            self._path,
            lines,
            self._blobs.held_for(lines),
            size_bytes=size_bytes,
            why=why.message if why else f"cannot write the thread {self._path}",
            hangs=hangs,
        )

    def _hangs_at_last(self) -> bool:
        """Write what waits in a thread of its own; return whether that is not through in time."""
        if not self._backlog and self.failure is None:
            return False
        writer = threading.Thread(target=self._write_at_last, name="treadle-close", daemon=True)
        try:
            writer.start()
        except RuntimeError:
            # There are no more threads: what waits is left elsewhere, untried.
            return self._writing.locked()
        writer.join(CLOSE_WRITE_SECONDS)
        return writer.is_alive()

    def _write_at_last(self) -> None:
        with self._writing:
            if not self.is_closed:
                self._try()
        self._let_go_if_still()

    def _let_go_if_still(self) -> None:
        """Close the file of a writer that is closed, unless a write goes on: that one does it.

        Whoever has written calls this, and whoever closes.
        """
        while self.is_closed and self._at_last and self._writing.acquire(blocking=False):
            try:
                self.tail.close()
                while self._at_last:
                    self._at_last.pop()()
            finally:
                self._writing.release()
