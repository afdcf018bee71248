"""Locks between daemons and those who start them; the kernel drops them with their process."""

from __future__ import annotations

import os
import sys


class Held:
    """A lock that is held until `release`, or until the process ends."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let it go; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def hold(path: str) -> Held | None:
    """Take the lock of a file, which is made; never waits.

    The file stays: whoever waits for its lock must find the same one.

    Returns:
        What holds it; None where somebody else does.

    Raises:
        OSError: it cannot be made.
    """
    no_link = getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | no_link, 0o600)
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return Held(descriptor)


def is_held(path: str) -> bool:
    """Whether somebody holds the lock of a file now.

    Raises:
        OSError: it cannot be looked at.
    """
    if not os.path.exists(path):
        return False
    held = hold(path)
    if held is not None:
        held.release()
    return held is None


def is_held_by(path: str, pid: int) -> bool:
    """Whether somebody holds the lock of a file, and that is this process.

    Where the system does not tell who it is, its being held has to do: proc_locks(5) of Linux.
    """
    if not is_held(path):
        return False
    try:
        with open("/proc/locks", encoding="ascii") as table:
            lines = [line.split() for line in table]
        inode = str(os.stat(path).st_ino)
    except OSError:
        return True
    # 1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF
    return any(
        words[1] == "FLOCK" and words[4] == str(pid) and words[5].rpartition(":")[2] == inode
        for words in lines
        if len(words) > 5
    )


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
