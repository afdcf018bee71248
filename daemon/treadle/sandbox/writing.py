"""Putting files below a root, and removing them: whole or not at all, and never outside.

Owns the temporary file, the comparison with what is there and the step that makes it count.
Refuses to know how paths are judged.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from treadle.sandbox import sandbox as seam
from treadle.sandbox.holding import Held, holding
from treadle.thread.files import sync, write_whole

# What one of our temporary files is called; a walk never finds one.
TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".treadle-", ".tmp"

# Enough that two writers at once never choose the same name.
_TEMPORARY_RANDOM_BYTES = 8

# What a file system says that knows no hard links.
_NO_LINKS = frozenset(
    getattr(errno, name)
    for name in ("EPERM", "EACCES", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EMLINK")
    if hasattr(errno, name)
)

# A file that nobody may write was made read-only on purpose, and the superuser's agent minds too.
_WRITABLE = 0o222

# Writers of one folder take turns from the comparison to the step that counts. A few locks for
# all folders: their number stays bounded, and a slow disk holds up few others.
_TURNS = tuple(threading.Lock() for _ in range(64))


def is_temporary(name: str) -> bool:
    """Whether a file is one that a killed writer left behind."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def write_below(
    root: Path,
    parts: Sequence[str],
    data: bytes,
    *,
    before: bytes | None,
    is_given_up: Callable[[], bool],
) -> None:
    """Put the file that lies `parts` below `root`; folders on the way are made.

    Args:
        root: a real folder.
        parts: the way from it, resolved and judged by the caller.
        data: what it is to hold.
        before: what it holds; None where there is none.
        is_given_up: asked before the step that counts; then nothing changes.

    Raises:
        Changed: it holds something else.
        OSError: no regular file, no permission, or swapped on the way.
    """
    if not parts:
        raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER)
    name = parts[-1]
    with _way(root, parts[:-1], before) as folder:
        mode = _check_same(folder, name, before)
        _check_not_read_only(folder, name, mode)
        with _temporary(folder, data, mode) as temporary, _turn(folder):
            if is_given_up():
                raise OSError(errno.ECANCELED, "the write was given up")
            _check_same(folder, name, before)
            _put(folder, temporary, name, is_new=before is None)
        _sync_folder(folder)


def remove_below(
    root: Path, parts: Sequence[str], leads_to: Sequence[str], *, before: bytes | None
) -> None:
    """Remove the entry that lies `parts` below `root`: a file, a link or an empty folder.

    Args:
        root: a real folder.
        parts: the way from it, judged by the caller, the last part not followed.
        leads_to: where the entry leads once it is followed; the same where it is no link.
        before: what the file holds; None for a folder, or a link to nothing or to a folder.

    Raises:
        Changed: it holds something else.
        OSError: no regular file, no permission, not empty, or swapped on the way.
    """
    if not parts:
        raise OSError(errno.EBUSY, seam.ROOT_STAYS)
    name = parts[-1]
    with holding(root, parts[:-1]) as folder, _turn(folder):
        mode = folder.status(name).st_mode
        folder.check()
        if stat.S_ISDIR(mode):
            if before is not None:
                raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER)
            os.rmdir(folder.at(name), dir_fd=folder.descriptor)
            return
        if stat.S_ISLNK(mode):
            _check_led_to(root, leads_to, before)
        else:
            _check_same(folder, name, before)
        os.unlink(folder.at(name), dir_fd=folder.descriptor)


def _check_led_to(root: Path, parts: Sequence[str], before: bytes | None) -> None:
    """Compare what a link leads to; a folder and nothing at all hold nothing."""
    try:
        with holding(root, parts[:-1]) as folder:
            _check_same(folder, parts[-1] if parts else ".", before)
    except (FileNotFoundError, IsADirectoryError):
        if before is not None:
            raise seam.Changed(errno.EBUSY, seam.CHANGED) from None


def _check_same(folder: Held, name: str, before: bytes | None) -> int | None:
    """Compare a file with what it is taken for, and return its mode; None where there is none.

    Raises:
        Changed: it holds something else.
        OSError: it is no regular file, or cannot be read.
    """
    try:
        descriptor = folder.open(name)
    except FileNotFoundError:
        if before is None:
            return None
        raise seam.Changed(errno.EBUSY, seam.CHANGED) from None
    with os.fdopen(descriptor, "rb") as file:
        if before is None or file.read(len(before) + 1) != before:
            raise seam.Changed(errno.EBUSY, seam.CHANGED)
        # Not what lets a program act as someone else: that was granted to the old bytes.
        return os.fstat(descriptor).st_mode & 0o777


def _check_not_read_only(folder: Held, name: str, mode: int | None) -> None:
    """Refuse to replace a file that could not be written into, as its folder alone decides that.

    Raises:
        PermissionError: it is read-only, or belongs to someone else.
    """
    if mode is None:
        return
    is_ours = os.access(folder.at(name), os.W_OK, dir_fd=folder.descriptor)
    if not is_ours or not mode & _WRITABLE:
        raise PermissionError(errno.EACCES, seam.READ_ONLY)


@contextmanager
def _way(root: Path, parts: Sequence[str], before: bytes | None) -> Iterator[Held]:
    """Hold a folder that a file is put into; it is made for a file that is new.

    Raises:
        Changed: a file that should be there cannot be.
    """
    with ExitStack() as stack:
        try:
            way = _making(root, parts) if before is None else holding(root, parts)
            folder = stack.enter_context(way)
        except FileNotFoundError:
            if before is None:
                raise
            raise seam.Changed(errno.EBUSY, seam.CHANGED) from None
        yield folder


@contextmanager
def _making(root: Path, parts: Sequence[str]) -> Iterator[Held]:
    """Hold a folder, made where it is missing; what was made goes again if the rest fails."""
    with ExitStack() as held, ExitStack() as made:
        folder = held.enter_context(Held.of(root))
        for part in parts:
            try:
                below = folder.enter(part)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(folder.at(part), dir_fd=folder.descriptor)
                    made.callback(_unmake, folder, part)
                below = folder.enter(part)
            folder = held.enter_context(below)
        yield folder
        made.pop_all()


def _unmake(folder: Held, name: str) -> None:
    with suppress(OSError):
        os.rmdir(folder.at(name), dir_fd=folder.descriptor)


@contextmanager
def _temporary(folder: Held, data: bytes, mode: int | None) -> Iterator[str]:
    """Write a file beside the one that it becomes, and remove what is left of it.

    Args:
        folder: where.
        data: what it holds.
        mode: that of the file it replaces; None gives a new one what the person's umask leaves.
    """
    name = f"{TEMPORARY_PREFIX}{os.urandom(_TEMPORARY_RANDOM_BYTES).hex()}{TEMPORARY_SUFFIX}"
    descriptor = folder.create(name, 0o666 if mode is None else 0o600)
    try:
        try:
            write_whole(descriptor, data)
            if mode is not None and sys.platform != "win32":
                os.fchmod(descriptor, mode)
            sync(descriptor)
        finally:
            os.close(descriptor)
        yield name
    finally:
        with suppress(OSError):
            os.unlink(folder.at(name), dir_fd=folder.descriptor)


@contextmanager
def _turn(folder: Held) -> Iterator[None]:
    """Wait until no other writer of this process is at a folder."""
    status = folder.status(".")
    with _TURNS[hash((status.st_dev, status.st_ino)) % len(_TURNS)]:
        yield


def _put(folder: Held, temporary: str, name: str, *, is_new: bool) -> None:
    """Give the temporary file its name; a new one never replaces what came meanwhile.

    Raises:
        Changed: something came.
    """
    folder.check()
    if not is_new:
        _rename(folder, temporary, name)
        return
    try:
        _link(folder, temporary, name)
    except FileExistsError:
        raise seam.Changed(errno.EBUSY, seam.CHANGED) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename(folder, temporary, name)


def _rename(folder: Held, old: str, new: str) -> None:
    """Rename a file over what is there."""
    held = folder.descriptor
    os.replace(folder.at(old), folder.at(new), src_dir_fd=held, dst_dir_fd=held)


def _link(folder: Held, old: str, new: str) -> None:
    """Give a file a name that is free.

    Raises:
        FileExistsError: it is taken.
    """
    if sys.platform == "win32":
        os.rename(folder.at(old), folder.at(new))  # noqa: PTH104 - it fails where the name is taken
        return
    held = folder.descriptor
    os.link(folder.at(old), folder.at(new), src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)


def _sync_folder(folder: Held) -> None:
    """Make a new entry durable, where folders can be flushed; the file is in place anyway."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        descriptor = os.open(folder.at("."), os.O_RDONLY, dir_fd=folder.descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
