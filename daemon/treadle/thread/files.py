"""Files that are private and durable on every system: the differences between systems live here.

Owns modes, flushing and the errors of the file system. Refuses to know what is in a file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from treadle.errors import StorageDegraded, ThreadUnreadable

# What was said to an agent is nobody else's on this machine.
FOLDER_MODE = 0o700
FILE_MODE = 0o600

# Windows would turn line ends around without it; elsewhere there is no such flag.
O_BINARY: int = getattr(os, "O_BINARY", 0)
# Children must not inherit a thread; Windows calls the flag differently.
O_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
# What is ours alone must not be a link to something else; Windows has no such flag.
O_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
# Opening a pipe waits for its other end without it; Windows has no such flag.
O_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each 0700 and durable.

    Folders that are there already keep their modes.

    Raises:
        OSError: one of them cannot be made.
    """
    # The second test ends the climb where even the root is missing: a drive that is not there.
    if folder.is_dir() or folder.parent == folder:
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(FOLDER_MODE)
    except FileExistsError:
        return
    folder.chmod(FOLDER_MODE)
    sync_folder(folder.parent)


def open_existing(path: Path, flags: int) -> int:
    """Open a file that is there, and nothing else that may be: a pipe would take lines for ever.

    Args:
        path: the file, or a link to it.
        flags: how to open it, as for `os.open`.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, flags | O_CLOEXEC | O_BINARY | O_NONBLOCK, FILE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ENXIO, "it is no regular file", str(path))
    return descriptor


def open_private(path: Path, flags: int) -> tuple[int, bool]:
    """Open a file, making it 0600 when it is missing, whatever the umask.

    Args:
        path: the file, or a link to it.
        flags: how to open it, as for `os.open`.

    Returns:
        The descriptor, and whether the file was made.

    Raises:
        OSError: it can be neither opened nor made, or is no regular file.
    """
    try:
        return open_existing(path, flags), False
    except FileNotFoundError:
        pass
    try:
        descriptor = open_existing(path, flags | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        # Somebody made it in between, or it is a link to a file that is missing.
        return open_existing(path, flags | os.O_CREAT), False
    if sys.platform != "win32":
        os.fchmod(descriptor, FILE_MODE)
    return descriptor, True


def open_ours(path: Path, flags: int) -> tuple[int, bool]:
    """Open or make a private file that no person leads elsewhere, such as those beside a thread.

    Args:
        path: the file.
        flags: how to open it, as for `os.open`.

    Returns:
        The descriptor, and whether the file was made.

    Raises:
        OSError: as `open_private`, or it is a link, which might lead to anybody's file.
    """
    if not O_NOFOLLOW and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
    return open_private(path, flags | O_NOFOLLOW)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is still the one at its path."""
    try:
        there = path.stat()
    except OSError:
        return False
    # Windows does not let anyone delete or replace a file that we hold open.
    return sys.platform == "win32" or os.path.samestat(there, os.fstat(descriptor))


def write(descriptor: int, data: bytes | memoryview) -> int:
    """Hand bytes to the system: the one place where a thread's lines leave this process.

    Returns:
        How many it took.

    Raises:
        OSError: it took none.
    """
    return os.write(descriptor, data)


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it, in one call unless the system takes less.

    Raises:
        OSError: it took only a part, or nothing.
    """
    view = memoryview(data)
    while view:
        view = view[write(descriptor, view) :]


def sync(descriptor: int) -> None:
    """Wait until what was written is on the device.

    Raises:
        OSError: the device failed.
    """
    if sys.platform == "darwin":
        _sync_fully(descriptor)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a new entry of a folder durable, where folders can be flushed.

    Some file systems refuse to flush a folder; the entry is then as durable as they make it.
    """
    if sys.platform == "win32":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def check_regular(path: Path) -> None:
    """Refuse what cannot be a thread before anything is opened: a pipe would block for ever.

    A file that is missing is fine.

    Raises:
        ThreadUnreadable: there is a folder, a device or a pipe, or the path leads nowhere.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise unusable(path, error) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise ThreadUnreadable(
            f"{path} is {kind}, so it cannot be a thread; move it away", path=str(path)
        )


def unusable(path: Path, error: OSError) -> ThreadUnreadable | StorageDegraded:
    """Translate why a thread could not be read; returned, for the caller to raise."""
    if error.errno in _FULL:
        return degraded(path, error)
    if error.errno in _IN_THE_WAY:
        how = "move away what lies in the place of a folder above it"
    else:
        how = "check that this user may read and write it and its folder"
    return ThreadUnreadable(f"cannot open the thread {path}: {_say(error)}; {how}", path=str(path))


def unwritable(path: Path, error: OSError) -> ThreadUnreadable | StorageDegraded:
    """Translate why a thread could not be opened for writing; returned, for the caller to raise.

    `StorageDegraded` says that it may pass: that a disk is full, read-only or away.
    """
    if error.errno in _NO_LOCKS:
        return ThreadUnreadable(
            f"the file system of {path} has no locks ({_say(error)}), so two processes could "
            "spoil the thread; keep the data folder on a local disk: --data-dir, TREADLE_DATA_DIR",
            path=str(path),
        )
    if error.errno in _NEVER:
        return unusable(path, error)
    return degraded(path, error)


def degraded(path: Path, error: OSError) -> StorageDegraded:
    """Translate why a thread cannot be written now; returned, for the caller to raise."""
    if error.errno in _IN_THE_WAY:
        what = f"{_say(error)}: {error.filename or path}"
        how = "move away what lies in its place, and it is written"
    else:
        what = _say(error)
        how = "free some space or repair the disk and try again"
    return StorageDegraded(
        f"cannot write the thread {path}: {what}; nothing said before is lost, {how}",
        path=str(path),
    )


def _errnos(*names: str) -> frozenset[int]:
    """Return those of the names that this system knows."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


# What the disk, or this process's share of it, has run out of; all of it may pass.
_FULL = _errnos("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EMFILE", "ENFILE", "EROFS")
# What no free space and no mounted disk will mend: the path itself is wrong.
_NEVER = _errnos("ENAMETOOLONG", "EINVAL")
# Something lies in the place of a file or a folder. Who opens a thread is refused before (see
# `obstacles`); under a thread that is open already, it may be moved away again.
_IN_THE_WAY = _errnos("ENOTDIR", "EISDIR", "ELOOP", "EEXIST", "ENOTEMPTY", "ENXIO")
# What a file system says that cannot lock; some network drives are such.
_NO_LOCKS = _errnos("ENOLCK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS")


if sys.platform == "darwin":
    import fcntl

    def _sync_fully(descriptor: int) -> None:
        """Flush on macOS, where plain fsync leaves the data in the drive's own memory."""
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:
            # Network drives and some others do not know it.
            os.fsync(descriptor)


def _say(error: OSError) -> str:
    return error.strerror or str(error) or "the device does not answer"
