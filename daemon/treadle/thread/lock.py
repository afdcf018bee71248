"""One writer per thread, across processes: a lock that the kernel drops with the process.

Owns the `.lock` file beside a thread. Refuses to know what is in the thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from pathlib import Path
from typing import Self

from treadle.errors import ThreadLocked
from treadle.thread.files import (
    O_BINARY,
    O_CLOEXEC,
    O_NOFOLLOW,
    O_NONBLOCK,
    is_same_file,
    make_folder,
    open_ours,
    unwritable,
)
from treadle.thread.paths import LOCK_SUFFIX, beside

# A listing holds the lock for an instant to see whether it is free, and a holder that just let
# go may have unlinked the file we locked: both pass at once, a real holder does not.
ATTEMPTS = 8
ATTEMPT_PAUSE_SECONDS = 0.002
# A holder writes its pid right after it has locked; on a busy machine that takes a while.
PID_ATTEMPTS = 50


class ThreadLock:
    """The right to write one thread, from `ensure` until `release` or the end of the process.

    Args:
        path: the thread's file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._thread = path
        self._path = _lock_path(path)
        self._descriptor: int | None = None

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Lock a thread without waiting for its holder; blocks for milliseconds at most.

        Args:
            path: the thread's file, which need not exist; missing folders are made.

        Raises:
            ThreadLocked: somebody holds it, this process included; `pid` says who.
            ThreadUnreadable: nothing can ever be locked there.
            StorageDegraded: the lock file cannot be made now.
        """
        lock = cls(path)
        lock.ensure()
        return lock

    def ensure(self) -> None:
        """Hold the lock, taking it anew where its file was deleted or replaced under us.

        Raises:
            ThreadLocked: somebody holds it, maybe since its file was deleted.
            ThreadUnreadable: nothing can ever be locked there.
            StorageDegraded: the lock file cannot be made now.
        """
        # Looked up each time: what leads there may be another disk by now.
        lock_path = _lock_path(self._thread)
        if self._descriptor is not None and is_same_file(self._descriptor, lock_path):
            return
        try:
            descriptor = _lock_patiently(lock_path)
        except OSError as error:
            raise unwritable(self._thread, error) from error
        if descriptor is None:
            raise _locked(self._thread, _told_pid(lock_path))
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._path, self._descriptor = lock_path, descriptor

    def release(self) -> None:
        """Let the thread go; a second call does nothing."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        # The file goes while the lock is held, so that nobody locks a file that then vanishes;
        # whoever opened it before sees that it is no longer the one at the path.
        if sys.platform != "win32" and is_same_file(descriptor, self._path):
            _unlink(self._path)
        # Unlocking first lets go even where a child between fork and exec shares the descriptor.
        with contextlib.suppress(OSError):
            _unlock(descriptor)
        os.close(descriptor)
        # Windows unlinks only what nobody holds open; it refuses where somebody was quicker.
        if sys.platform == "win32":
            _unlink(self._path)


def holder(path: Path) -> int | None:
    """Tell who holds a thread for writing now, without taking it.

    Returns:
        The holder's pid, 0 when somebody holds it whose pid cannot be read, None when it is free.
    """
    lock_path = _lock_path(path)
    try:
        descriptor = os.open(lock_path, os.O_RDWR | _NO_OTHER)
    except OSError:
        return None
    try:
        if _try_lock(descriptor, shared=True):
            _unlock(descriptor)
            return None
        return _read_pid(lock_path) or 0
    except OSError:
        return None
    finally:
        os.close(descriptor)


# Far behind the pid: Windows lets nobody read a byte that is locked.
_LOCKED_BYTE = 1 << 30
# A link or a pipe is no lock of ours, and must not block who asks.
_NO_OTHER = O_CLOEXEC | O_BINARY | O_NOFOLLOW | O_NONBLOCK
# What the kernel says when somebody else holds the lock.
_HELD = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})


def _lock_path(path: Path) -> Path:
    # Two names of one file, through a link, are one thread.
    return beside(Path(os.path.realpath(path)), LOCK_SUFFIX)


def _lock_patiently(lock_path: Path) -> int | None:
    """Return a locked descriptor with our pid in the file, or None when somebody holds it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            make_folder(lock_path.parent)
            descriptor, _made = open_ours(lock_path, os.O_RDWR)
        except FileNotFoundError:
            # The last thread in its folder has just expired, and the folder went with it.
            if attempt == ATTEMPTS:
                raise
            continue
        try:
            locked = _try_lock(descriptor) and is_same_file(descriptor, lock_path)
            if locked:
                _write_pid(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if locked:
            return descriptor
        os.close(descriptor)
        time.sleep(ATTEMPT_PAUSE_SECONDS)
    return None


def _locked(path: Path, pid: int | None) -> ThreadLocked:
    if pid == os.getpid():
        message = f"this process ({pid}) already has the thread {path} open; close it there first"
    else:
        who = f"process {pid}" if pid else "another process"
        message = f"{who} is writing the thread {path}; close it there, or stop that process"
    return ThreadLocked(message, pid=pid)


def _told_pid(lock_path: Path) -> int | None:
    """Return the holder's pid, waiting a moment for one that has just become the holder.

    Until then the file is empty, or still names a holder that was killed.
    """
    for _ in range(PID_ATTEMPTS):
        pid = _read_pid(lock_path)
        if pid and _lives(pid):
            return pid
        time.sleep(ATTEMPT_PAUSE_SECONDS)
    return pid


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, f"{os.getpid()}\n".encode())


def _read_pid(lock_path: Path) -> int | None:
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | _NO_OTHER)
        with os.fdopen(descriptor, "rb") as file:
            # A pid has at most ten digits; whatever else may be in there is not ours.
            return int(file.read(16))
    except (OSError, ValueError):
        return None


def _unlink(lock_path: Path) -> None:
    with contextlib.suppress(OSError):
        lock_path.unlink()


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _lives(pid: int) -> bool:
        # Asking would mean opening the process; the pid is told as it stands.
        return True

else:
    import fcntl

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _lives(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            return True  # another user's, or a number that is no pid: told as it stands
        return True
