"""Folders held open, so that nobody can bend the way to what lies in them.

Owns the two ways of doing it. Where descriptors can be opened relative to a folder's, each part
is opened from the one before and no link is followed: the path was real when it was resolved,
so a link found now was put there since. Elsewhere (Windows) real paths are used and looked at
again. Pipes, sockets and devices are recognised before they are opened, and never waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from treadle.sandbox import sandbox as seam

Kind = Literal["file", "folder", "other"]

# Windows has no such descriptors; everywhere else they close the gap between check and use.
HAS_DIR_FD = os.supports_dir_fd.issuperset(
    {os.open, os.stat, os.mkdir, os.rename, os.link, os.unlink, os.rmdir}
)

# Nothing opened here is for a child process; a link in the place of what was judged is an error.
_FLAGS = 0
for _name in ("O_CLOEXEC", "O_NOFOLLOW"):
    _FLAGS |= getattr(os, _name, 0)

# A file that is swapped for a pipe after it was looked at must not make the open wait; a Windows
# file is read as bytes.
_FILE_FLAGS = os.O_RDONLY | _FLAGS
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
    _FILE_FLAGS |= getattr(os, _name, 0)

# A folder that is listed must be one: anything else is an error at once.
_FOLDER_FLAGS = os.O_RDONLY | _FLAGS | getattr(os, "O_DIRECTORY", 0)
# A folder on the way need only be passable, not readable, where the kernel can tell the two apart.
_WAY_FLAGS = _FOLDER_FLAGS | getattr(os, "O_PATH", 0)

# How a temporary file is created: never over anything that is there.
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS | getattr(os, "O_BINARY", 0)

# What the seam says where the system says it less plainly.
_TEXTS = {
    errno.ENOENT: seam.NO_ENTRY,
    errno.ENOTDIR: seam.NOT_A_FOLDER,
    errno.EISDIR: seam.IS_A_FOLDER,
    errno.ENOTEMPTY: seam.NOT_EMPTY,
    errno.ELOOP: "a link on the way leads in a circle, or changed while it was followed",
    errno.ENAMETOOLONG: seam.TOO_LONG,
}


@dataclass(frozen=True, slots=True)
class Held:
    """A folder to act in; to be used as a context, which lets go of it.

    Args:
        real: where it lies.
        descriptor: the folder itself; None where descriptors cannot be chained.
    """

    real: Path
    descriptor: int | None

    @classmethod
    def of(cls, root: Path) -> Held:
        """Hold a real folder that is not to be judged."""
        if HAS_DIR_FD:
            return cls(root, os.open(root, _WAY_FLAGS))
        held = cls(root, None)
        held.check()
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def at(self, name: str) -> str:
        """Spell an entry for a call of the system, which also gets `dir_fd=self.descriptor`."""
        return name if self.descriptor is not None else str(self.real / name)

    def status(self, name: str) -> os.stat_result:
        """Look at an entry, which may be a link."""
        return os.stat(self.at(name), dir_fd=self.descriptor, follow_symlinks=False)

    def enter(self, name: str) -> Held:
        """Hold a folder in it.

        Raises:
            NotADirectoryError: it is none, or a link.
        """
        if self.descriptor is not None:
            below = os.open(name, _WAY_FLAGS, dir_fd=self.descriptor)
            return Held(self.real / name, below)
        held = Held(self.real / name, None)
        held.check()
        return held

    def open(self, name: str) -> int:
        """Open a regular file to be read, and return the descriptor.

        Raises:
            IsADirectoryError: it is a folder.
            PermissionError: it is a pipe, a socket or a device.
            Changed: it was replaced just then.
            OSError: it is missing, or a link.
        """
        _check_regular(self.status(name))
        descriptor = os.open(self.at(name), _FILE_FLAGS, dir_fd=self.descriptor)
        try:
            status = os.fstat(descriptor)
            _check_regular(status)
            self.check()
            if self.descriptor is None and not os.path.samestat(self.status(name), status):
                # Mostly by another writer, who puts a file in its place.
                raise seam.Changed(errno.EBUSY, seam.CHANGED)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the whole of a regular file.

        Raises:
            OSError: as `open`, or it holds more than `limit_bytes`.
        """
        with os.fdopen(self.open(name), "rb") as file:
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise OSError(errno.EFBIG, seam.TOO_LARGE)
        return data

    def kind(self, name: str) -> Kind:
        """Tell what an entry is.

        Raises:
            PermissionError: it is a pipe, a socket or a device.
            OSError: it is missing, or a link.
        """
        status = self.status(name)
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        _check_regular(status)
        return "file"

    def create(self, name: str, mode: int) -> int:
        """Create a file that is not there yet, to be written, and return the descriptor."""
        self.check()
        return os.open(self.at(name), _NEW_FLAGS, mode, dir_fd=self.descriptor)

    def entries(self) -> Generator[tuple[str, Kind]]:
        """Find what lies in it, in no order; a link is something other than a file or folder."""
        if self.descriptor is None:
            self.check()
            with os.scandir(self.real) as found:
                yield from ((entry.name, _kind(entry)) for entry in found)
            self.check()
            return
        # The one that is held may only be passable.
        readable = os.open(".", _FOLDER_FLAGS, dir_fd=self.descriptor)
        try:
            with os.scandir(readable) as found:
                yield from ((entry.name, _kind(entry)) for entry in found)
        finally:
            os.close(readable)

    def check(self) -> None:
        """Look again, where it is held by its path: that still leads where it was judged to.

        Raises:
            OSError: it is no folder any more, or elsewhere.
        """
        if self.descriptor is not None:
            return
        mode = os.lstat(self.real).st_mode
        if stat.S_ISLNK(mode) or Path(os.path.realpath(self.real)) != self.real:
            raise PermissionError(errno.EACCES, seam.OUTSIDE)
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER)


@contextmanager
def holding(root: Path, parts: Sequence[str]) -> Iterator[Held]:
    """Hold the folder that lies `parts` below `root`.

    Args:
        root: a real folder.
        parts: the way from it, resolved and judged by the caller: no link, no `..`.

    Raises:
        OSError: missing, no folder, no permission, or swapped on the way.
    """
    held = Held.of(root)
    try:
        for part in parts:
            below = held.enter(part)
            held.close()
            held = below
        yield held
    finally:
        held.close()


def read_below(root: Path, parts: Sequence[str], limit_bytes: int) -> bytes:
    """Return the whole file that lies `parts` below `root`.

    Raises:
        OSError: it is missing, no regular file, swapped on the way, or holds more bytes.
    """
    if not parts:
        raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER)
    with holding(root, parts[:-1]) as folder:
        return folder.read(parts[-1], limit_bytes)


def names_below(root: Path, parts: Sequence[str]) -> list[str]:
    """List the folder that lies `parts` below `root`, sorted; the names of folders end in `/`.

    Raises:
        OSError: it is missing, no folder, or swapped on the way.
    """
    with holding(root, parts) as folder, closing(folder.entries()) as found:
        entries = list(islice(found, seam.WALK_LIMIT_FILES + 1))
    if len(entries) > seam.WALK_LIMIT_FILES:
        raise OSError(errno.EFBIG, seam.TOO_MANY)
    return sorted(name + ("/" if kind == "folder" else "") for name, kind in entries)


@contextmanager
def telling(path: str) -> Iterator[None]:
    """Raise errors with the path as it was given, in place of whatever they name themselves."""
    try:
        yield
    except seam.Changed:
        raise seam.Changed(errno.EBUSY, seam.CHANGED, path) from None
    except OSError as error:
        code = error.errno or errno.EIO
        raise OSError(code, _TEXTS.get(code) or error.strerror or "", path) from None


def _kind(entry: os.DirEntry[str]) -> Kind:
    """Tell what an entry is; what goes while it is looked at is nothing to read."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "")
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER)
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError(errno.EACCES, seam.NOT_REGULAR)
