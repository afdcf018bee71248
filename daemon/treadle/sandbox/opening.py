"""Opening a file below a root so that nobody can bend the way there.

Owns the two ways of doing it. Where descriptors can be opened relative to a folder's, each part
is opened from the one before and no link is followed: the path was real when it was resolved,
so a link found now was put there since. Elsewhere (Windows) the real path is opened and looked
at again. Pipes, sockets and devices are recognised before they are opened, and never waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from treadle.sandbox import sandbox as seam

# Windows has no such descriptors; everywhere else they close the gap between check and use.
HAS_DIR_FD = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd

# A file that is swapped for a pipe after it was looked at must not make the open wait; nothing
# opened here is for a child process; a Windows file is read as bytes.
_FILE_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"):
    _FILE_FLAGS |= getattr(os, _name, 0)

# A folder on the way need only be passable, not readable, where the kernel can tell the two apart.
_WAY_FLAGS = getattr(os, "O_PATH", os.O_RDONLY)
for _name in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"):
    _WAY_FLAGS |= getattr(os, _name, 0)

# What the seam says where the system says it less plainly.
_TEXTS = {
    errno.ENOENT: seam.NO_ENTRY,
    errno.ENOTDIR: seam.NOT_A_FOLDER,
    errno.ELOOP: "a link on the way leads in a circle, or changed while it was followed",
    errno.ENAMETOOLONG: "the path is too long",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file, or a folder; to be used as a context, which closes it.

    `path` is the path as the tool was given it, for errors; `real` is where it lies.
    """

    path: str
    real: Path
    descriptor: int | None
    is_folder: bool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def read(self, limit_bytes: int) -> bytes:
        """Return the whole file.

        Raises:
            IsADirectoryError: it is a folder.
            OSError: it holds more than `limit_bytes`.
        """
        if self.is_folder or self.descriptor is None:
            raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER, self.path)
        with _telling(self.path), open(self.descriptor, "rb", closefd=False) as file:
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise OSError(errno.EFBIG, seam.TOO_LARGE, self.path)
        return data

    def names(self) -> list[str]:
        """List the folder, sorted; the names of folders end in `/`, links are not followed.

        Raises:
            NotADirectoryError: it is a file.
            PermissionError: it was swapped for a link while it was listed.
        """
        if not self.is_folder:
            raise NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER, self.path)
        with _telling(self.path):
            found = _scan(self.real if self.descriptor is None else self.descriptor)
            if self.descriptor is None:
                _check_still_real(self.real)
        return sorted(found)


def open_below(root: Path, parts: Sequence[str], path: str) -> Opened:
    """Open the file or folder that lies `parts` below `root`.

    Args:
        root: a real folder.
        parts: the way from it, resolved and judged by the caller: no link, no `..`.
        path: the path as the tool was given it; errors carry it and nothing else.

    Raises:
        OSError: missing, no permission, a pipe, a socket, a device, or swapped on the way.
    """
    with _telling(path):
        return (_by_descriptors if HAS_DIR_FD else _by_path)(root, parts, path)


@contextmanager
def _telling(path: str) -> Iterator[None]:
    """Raise errors with the path as it was given, in place of whatever they name themselves."""
    try:
        yield
    except OSError as error:
        code = error.errno or errno.EIO
        raise OSError(code, _TEXTS.get(code) or error.strerror or "", path) from None


def _scan(folder: Path | int) -> list[str]:
    with os.scandir(folder) as entries:
        return [
            entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries
        ]


def _by_descriptors(root: Path, parts: Sequence[str], path: str) -> Opened:
    way = os.open(root, _WAY_FLAGS)
    try:
        for part in parts[:-1]:
            following = os.open(part, _WAY_FLAGS, dir_fd=way)
            os.close(way)
            way = following
        last = parts[-1] if parts else "."
        _check_kind(os.stat(last, dir_fd=way, follow_symlinks=False))
        descriptor = os.open(last, _FILE_FLAGS, dir_fd=way)
    finally:
        os.close(way)
    return _opened(descriptor, root.joinpath(*parts), path)


def _by_path(root: Path, parts: Sequence[str], path: str) -> Opened:
    """Open where descriptors cannot be chained; a folder gets none at all on Windows."""
    real = root.joinpath(*parts)
    status = os.lstat(real)
    _check_kind(status)
    if stat.S_ISDIR(status.st_mode):
        return Opened(path, real, None, is_folder=True)
    opened = _opened(os.open(real, _FILE_FLAGS), real, path)
    try:
        _check_still_real(real)
        if not os.path.samestat(real.stat(), os.fstat(opened.descriptor or 0)):
            raise PermissionError(errno.EACCES, seam.OUTSIDE)
    except OSError:
        opened.close()
        raise
    return opened


def _opened(descriptor: int, real: Path, path: str) -> Opened:
    try:
        status = os.fstat(descriptor)
        _check_kind(status)
    except OSError:
        os.close(descriptor)
        raise
    return Opened(path, real, descriptor, stat.S_ISDIR(status.st_mode))


def _check_kind(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "")
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise PermissionError(errno.EACCES, seam.NOT_REGULAR)


def _check_still_real(real: Path) -> None:
    """Look again, where it was opened by its path: that still leads where it was judged to."""
    if Path(os.path.realpath(real)) != real:
        raise PermissionError(errno.EACCES, seam.OUTSIDE)
