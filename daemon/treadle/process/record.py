"""A file that names the trees a daemon watches, for the case that its reaper is killed as well.

Owns that file: made when a tree is watched, renewed when it has grown, gone when none is left,
and locked by the kernel for as long as its daemon lives. `left` reads it at a later start. Only
where the kernel lists processes under `/proc`: elsewhere a process cannot be told from a stranger
that got its pid, nothing is written, and the reaper is all there is. Refuses to know who watches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from treadle.process.census import HAS_PROC
from treadle.process.telling import begun
from treadle.process.tree import Tree

logger = logging.getLogger(__name__)

# The ending of such a file's name.
SUFFIX = ".trees"

# The first word of a file, with the number of its format.
FORMAT = "treadle-trees-1"

# A file that has grown to this is written anew; it is some thousand commands.
RENEW_BYTES = 256 * 1024

# Whoever looks for what dead daemons left holds the lock of a new file for an instant.
_ATTEMPTS = 8

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Record:
    """The file of this process in one folder.

    Contract: nothing here raises; a file that cannot be written is tried again with the next line.

    Args:
        folder: where; it is made with the file, and with 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._descriptor = -1
        self._size_bytes = 0
        self._has_failed = False
        self._process_id = os.getpid()

    def tell(self, line: str, trees: Iterable[Tree]) -> None:
        """Write down a change.

        Args:
            line: the change.
            trees: all that are watched now, the change included.
        """
        # After a fork the file is the parent's.
        if not HAS_PROC or os.getpid() != self._process_id:
            return
        trees = list(trees)
        try:
            if not trees:
                self.end()
            elif self._path is None or self._size_bytes + len(line) > RENEW_BYTES:
                self._renew(trees)
            else:
                self._size_bytes += _append(self._descriptor, line)
        except OSError as error:
            self._size_bytes = RENEW_BYTES  # what is half written is written anew
            if not self._has_failed:
                logger.warning("no record of processes can be kept in %s: %s", self._folder, error)
            self._has_failed = True

    def end(self) -> None:
        """Have no file any more."""
        path, self._path = self._path, None
        if path is not None and os.getpid() == self._process_id:
            _remove(path, self._descriptor)

    def _renew(self, trees: list[Tree]) -> None:
        """Begin a new file; the old one goes only when the new one stands.

        Raises:
            OSError: it cannot be written.
        """
        make_private(self._folder)
        text = f"{FORMAT} {boot_id()}\n" + "".join(map(begun, trees))
        path, descriptor = _make_locked(self._folder)
        try:
            size_bytes = _append(descriptor, text)
        except OSError:
            _remove(path, descriptor)
            raise
        self.end()
        self._path, self._descriptor, self._size_bytes = path, descriptor, size_bytes


def boot_id() -> str:
    """Return what tells this run of the machine from every other.

    Raises:
        OSError: the kernel does not say.
    """
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, each 0700.

    Raises:
        OSError: one of them cannot be made.
    """
    if not folder.parent.exists() and folder.parent != folder:
        make_private(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)


def lock(descriptor: int) -> bool:
    """Take a file's lock if nobody holds it; the system drops it with the process.

    Raises:
        OSError: it can not be locked.
    """
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is still the one of that name."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _append(descriptor: int, text: str) -> int:
    data = text.encode()
    if os.write(descriptor, data) != len(data):
        raise OSError("the disk is full")
    return len(data)


def _remove(path: Path, descriptor: int) -> None:
    """Remove a file while it is locked, so that nobody else takes it for a dead daemon's."""
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(descriptor)


def _make_locked(folder: Path) -> tuple[Path, int]:
    for _ in range(_ATTEMPTS):
        path = folder / f"{uuid4().hex}{SUFFIX}"
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            if lock(descriptor) and is_at(descriptor, path):
                return path, descriptor
        except OSError:
            _remove(path, descriptor)
            raise
        # Somebody took it for a dead daemon's, and removes it.
        os.close(descriptor)
    raise OSError("its lock is never free")
