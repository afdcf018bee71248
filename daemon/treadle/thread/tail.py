"""The end of a thread's file: whole lines behind whatever it holds, and nothing half.

Owns the descriptor and where the file ended when we last touched it. Refuses to know what a line
says, and why it is written now.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from treadle.thread.files import (
    O_BINARY,
    O_CLOEXEC,
    is_same_file,
    open_ours,
    sync,
    sync_folder,
    write_whole,
)
from treadle.thread.paths import DAMAGED_SUFFIX, beside

# What is set aside is copied in pieces of this size, for it may be any amount.
COPY_BYTES = 1 << 20


class Tail:
    """Where lines are appended.

    Args:
        path: the thread's file.

    Attributes:
        descriptor: the file that is written, None where it could not be opened yet.
        size_bytes: where it ended when we last touched it; an editor may have saved it since.
        flushed_bytes: up to where it is known to be on the device.
        is_edited: somebody else has written it since it was opened.
        aside_at: what follows here is half a line that goes to the side file before we write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor: int | None = None
        self.size_bytes = 0
        self.is_edited = False
        self.aside_at: int | None = None
        # Where a failed write left half a line that could not be cut off at once.
        self._torn_at: int | None = None
        with contextlib.suppress(OSError):
            # A folder in its place has a size as well.
            if path.is_file():
                self.size_bytes = path.stat().st_size
        self.flushed_bytes = self.size_bytes

    @property
    def whole_bytes(self) -> int:
        """Where the last whole line ends."""
        offsets = (self.aside_at, self._torn_at, self.size_bytes)
        return next(offset for offset in offsets if offset is not None)

    def switch(self, descriptor: int) -> None:
        """Go on in another file than before, or in the first one."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.is_edited = True
            self.flushed_bytes = 0
        self.descriptor = descriptor

    def write_line(self, line: bytes) -> None:
        """Write one line, with its line end, in one call.

        Raises:
            OSError: it could not be written, and the file ends where it ended before.
        """
        descriptor = self._open_descriptor()
        end = os.fstat(descriptor).st_size
        # Whoever changed the file may have left half a line, which must not swallow this one.
        if end != self.size_bytes:
            self.is_edited = True
            line = b"\n" + line
        self._torn_at = end
        try:
            write_whole(descriptor, line)
        except OSError:
            # When even the cut fails, `settle` cuts before anything else is written.
            with contextlib.suppress(OSError):
                self._cut(end)
            raise
        self._torn_at = None
        self.size_bytes = end + len(line)

    def settle(self, line: bytes) -> None:
        """Have the file end at a line's end, whatever a kill or a failed write has left.

        Args:
            line: the one whose writing may have failed in its middle.

        Raises:
            OSError: that could not be done.
        """
        if self.aside_at is not None:
            self._move_aside(self.aside_at)
        if self._torn_at is None:
            return
        descriptor = self._open_descriptor()
        os.lseek(descriptor, self._torn_at, os.SEEK_SET)
        left = os.read(descriptor, len(line) + 1)
        # Only our own half line is cut: somebody else may have written there since.
        if left and (line.startswith(left) or (b"\n" + line).startswith(left)):
            self._cut(self._torn_at)
        self._torn_at = None

    def write_anew(self) -> None:
        """Write again, in their place, the same bytes that a flush could not put on the device.

        After a flush that failed the system takes them for written, and the next one would say
        that all is well.

        Raises:
            OSError: that could not be done.
        """
        # Appending descriptors write nowhere but at the end.
        descriptor = os.open(self._path, os.O_RDWR | O_CLOEXEC | O_BINARY)
        try:
            if not os.path.samestat(os.fstat(descriptor), os.fstat(self._open_descriptor())):
                return
            os.lseek(descriptor, self.flushed_bytes, os.SEEK_SET)
            data = os.read(descriptor, max(0, self.size_bytes - self.flushed_bytes))
            os.lseek(descriptor, self.flushed_bytes, os.SEEK_SET)
            write_whole(descriptor, data)
        finally:
            os.close(descriptor)

    def is_deleted(self) -> bool:
        """Tell whether the file has no name any more, and no other one has taken its place."""
        # A folder or a pipe is no thread that could have taken its place.
        if self.descriptor is None or self._path.is_file():
            return False
        try:
            return os.fstat(self.descriptor).st_nlink == 0
        except OSError:
            return False

    def is_out_of_reach(self) -> bool:
        """Tell whether the folder is away and the file is not: unmounted, or moved elsewhere."""
        return (
            self.descriptor is not None and not self._path.parent.is_dir() and not self.is_deleted()
        )

    def is_there(self) -> bool:
        """Tell whether the file is the one at the path."""
        return self.descriptor is not None and is_same_file(self.descriptor, self._path)

    def is_replaced(self) -> bool:
        """Tell whether another file has taken its place."""
        return not self.is_there() and self._path.is_file()

    def is_as_we_left_it(self) -> bool:
        """Tell whether the file is the one at the path and holds what we know of."""
        return (
            self.descriptor is not None
            and not self.is_edited
            and self.is_there()
            and os.fstat(self.descriptor).st_size == self.size_bytes
        )

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            os.close(descriptor)

    def _open_descriptor(self) -> int:
        assert self.descriptor is not None, "the journal opens the file before it writes"
        return self.descriptor

    def _cut(self, offset: int) -> None:
        os.ftruncate(self._open_descriptor(), offset)
        self._torn_at = None
        self.size_bytes = offset

    def _move_aside(self, offset: int) -> None:
        descriptor = self._open_descriptor()
        os.lseek(descriptor, offset, os.SEEK_SET)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            _keep_damaged(beside(self._path, DAMAGED_SUFFIX), _pieces(file))
        self._cut(offset)
        self.aside_at = None


def keep_lines_aside(path: Path, places: Iterable[tuple[int, int]]) -> None:
    """Copy lines of a thread to its `.damaged` file, each with a line end.

    Args:
        path: the thread's file.
        places: where each line begins, and how long it is without its line end, in bytes.

    Raises:
        OSError: they could not be copied.
    """
    with path.open("rb") as file:
        _keep_damaged(beside(path, DAMAGED_SUFFIX), _lines_at(file, places))


def _lines_at(file: BinaryIO, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    for offset, size_bytes in places:
        file.seek(offset)
        # The byte behind a line is its line end.
        yield from _pieces(file, size_bytes + 1)


def _pieces(file: BinaryIO, size_bytes: int = sys.maxsize) -> Iterator[bytes]:
    """Read so much from where a file stands, or to its end."""
    while piece := file.read(min(size_bytes, COPY_BYTES)):
        size_bytes -= len(piece)
        yield piece


def _keep_damaged(path: Path, pieces: Iterable[bytes]) -> None:
    """Append bytes to the damaged file, untouched, on a line of their own, and flush them."""
    descriptor, made = open_ours(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                write_whole(descriptor, b"\n")
        for piece in pieces:
            write_whole(descriptor, piece)
        sync(descriptor)
    finally:
        os.close(descriptor)
    if made:
        sync_folder(path.parent)
