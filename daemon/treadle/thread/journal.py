"""The one writer of thread files: whole lines at the end, torn tails set aside.

Owns the descriptor and the promise that the file always ends at a line's end.
Refuses to know what a line says. Whoever writes holds the thread's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from treadle.errors import ConfigurationError
from treadle.thread.files import (
    degraded,
    is_same_file,
    make_folder,
    open_private,
    sync,
    sync_folder,
    unusable,
)
from treadle.thread.paths import DAMAGED_SUFFIX, beside

# A device that takes longer than this to flush is taken for dead; healthy ones take milliseconds.
FLUSH_TIMEOUT_SECONDS = 30.0


class Journal:
    """A thread's file, open for appending."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        # Where a failed write left half a line that could not be cut off at once.
        self._torn_at: int | None = None
        # Where the file ended when we last touched it: an editor may have saved it since.
        self._size_bytes = os.fstat(descriptor).st_size

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a thread's file for appending, making it and its folders when they are missing.

        Raises:
            ThreadUnreadable: it cannot be opened.
            StorageDegraded: there is no room to make it.
        """
        try:
            make_folder(path.parent)
            descriptor, made = open_private(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise unusable(path, error) from error
        if made:
            sync_folder(path.parent)
        return cls(path, descriptor)

    def append(self, line: bytes) -> None:
        """Write one line; it is with the operating system when this returns.

        Args:
            line: without its line end, and with none inside.

        Raises:
            StorageDegraded: it could not be written, and the file ends where it ended before.
        """
        descriptor = self._open_descriptor()
        try:
            if self._torn_at is not None:
                self._cut(descriptor, self._torn_at)
            self._torn_at = os.fstat(descriptor).st_size
            # Whoever changed the file may have left half a line, which must not swallow this one.
            start = b"" if self._torn_at == self._size_bytes else b"\n"
            _write_whole(descriptor, start + line + b"\n")
            self._size_bytes = self._torn_at + len(start) + len(line) + 1
            self._torn_at = None
        except OSError as error:
            # When even the cut fails, the next append tries it again before it writes.
            with contextlib.suppress(OSError):
                if self._torn_at is not None:
                    self._cut(descriptor, self._torn_at)
            raise degraded(self._path, error) from error

    async def flush(self) -> None:
        """Wait until everything appended is on the device; a cancel does not undo it.

        Raises:
            StorageDegraded: the device failed, or did not answer within 30 seconds.
        """
        # A descriptor of its own: the journal may be closed while the worker still flushes.
        descriptor = os.dup(self._open_descriptor())
        work = asyncio.get_running_loop().run_in_executor(None, _sync_and_close, descriptor)
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                await asyncio.shield(work)
        except OSError as error:  # TimeoutError is one
            raise degraded(self._path, error) from error

    def end_last_line(self) -> None:
        """Give the last line the line end that a kill kept from it.

        Raises:
            StorageDegraded: it could not be written.
        """
        self.append(b"")

    def set_tail_aside(self, offset: int) -> None:
        """Move what follows `offset` to the `.damaged` file; it is safe there before it is cut.

        Raises:
            StorageDegraded: it could not be copied, so it was not cut.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                _keep_damaged(beside(self._path, DAMAGED_SUFFIX), file.read())
            self._cut(self._open_descriptor(), offset)
            self._size_bytes = offset
        except OSError as error:
            raise degraded(self._path, error) from error

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
        """Tell whether the file written to is still the one at the path, and as we left it."""
        if self._descriptor is None or not is_same_file(self._descriptor, self._path):
            return False
        is_torn = self._torn_at is not None
        return is_torn or os.fstat(self._descriptor).st_size == self._size_bytes

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ConfigurationError(f"the thread {self._path} was closed; open it again first")
        return self._descriptor

    def _cut(self, descriptor: int, offset: int) -> None:
        os.ftruncate(descriptor, offset)
        self._torn_at = None


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it, in one call unless the system takes less."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_and_close(descriptor: int) -> None:
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def _keep_damaged(path: Path, torn: bytes) -> None:
    """Append bytes to the damaged file, untouched, on a line of their own, and flush them."""
    descriptor, made = open_private(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                torn = b"\n" + torn
        _write_whole(descriptor, torn)
        sync(descriptor)
    finally:
        os.close(descriptor)
    if made:
        sync_folder(path.parent)
