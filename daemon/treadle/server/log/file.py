"""The log's file: bounded, private, and shared by every daemon of this person.

Owns its name, its size and its older parts. Refuses to know what its lines say.

| who does what at once                   | why no line is lost or torn                        |
|-----------------------------------------|----------------------------------------------------|
| two daemons append                      | one `write` of whole lines, at the end (`O_APPEND`) |
| one renames the file while one appends  | the file is opened for each write; a write that     |
|                                         | comes late lands in the part that was renamed       |
| two find the file full                  | the kernel's lock lets one rename; it looks again   |
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

# One for all daemons of a person, so that there is one place to look.
FILE_NAME = "treadle.log"

# A day of a busy editor is some hundred kilobytes.
PART_BYTES = 4 << 20

# The whole log may so take 20 MiB, which is weeks.
OLDER_PARTS = 4


class LogFile:
    """Appends to `treadle.log` in a folder, which is made with the first line.

    Args:
        folder: where it lies, beside its older parts `treadle.log.1` (the newest) and so on.
        part_bytes: a file that has this size becomes an older part.
        older_parts: how many are kept.
    """

    def __init__(
        self, folder: Path, *, part_bytes: int = PART_BYTES, older_parts: int = OLDER_PARTS
    ) -> None:
        self._path = folder / FILE_NAME
        self._part_bytes = part_bytes
        self._older_parts = older_parts
        self._is_torn = False

    def write(self, data: bytes) -> None:
        """Append whole lines; blocks on the disk.

        Raises:
            OSError: they could not be written, or not all of them.
        """
        descriptor = self._open()
        try:
            if os.fstat(descriptor).st_size >= self._part_bytes:
                os.close(descriptor)
                descriptor = -1
                self._rotate()
                descriptor = self._open()
                self._require_bound(descriptor)
            self._append(descriptor, data)
        finally:
            if descriptor != -1:
                os.close(descriptor)

    def _open(self) -> int:
        # Loaded with the first line, in the log's own thread.
        from treadle.thread.files import make_folder, open_ours

        # Open only as long as it is written: Windows renames no file that somebody has open.
        make_folder(self._path.parent)
        descriptor, _made = open_ours(self._path, os.O_WRONLY | os.O_APPEND)
        return descriptor

    def _append(self, descriptor: int, data: bytes) -> None:
        if self._is_torn:
            data = b"\n" + data
        written = os.write(descriptor, data)
        while written < len(data):
            # A disk that has just become full: what follows must not go on in the middle.
            self._is_torn = True
            written += os.write(descriptor, data[written:])
        self._is_torn = False

    def _require_bound(self, descriptor: int) -> None:
        """Refuse to let a file grow that nobody can rename.

        Raises:
            OSError: it has twice the size it may have.
        """
        if os.fstat(descriptor).st_size >= 2 * self._part_bytes:
            raise OSError(errno.EFBIG, "it is full and cannot be renamed")

    def _rotate(self) -> None:
        """Make the full file the newest of the older parts, unless somebody else does.

        Whoever cannot do it goes on in the full file and tries again with the next lines.
        """
        from treadle.errors import TreadleError
        from treadle.thread.lock import ThreadLock

        try:
            lock = ThreadLock.acquire(self._path)
        except TreadleError:
            return
        try:
            with contextlib.suppress(OSError):
                if self._path.stat().st_size >= self._part_bytes:
                    self._shift()
        finally:
            lock.release()

    def _shift(self) -> None:
        for number in range(self._older_parts - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._part(number).replace(self._part(number + 1))
        self._path.replace(self._part(1))

    def _part(self, number: int) -> Path:
        return self._path.with_name(f"{FILE_NAME}.{number}")
