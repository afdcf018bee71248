"""The death of another process, noticed.

Owns the ways to learn of it on each system. Refuses to know whose death it is and what follows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import TypeAlias

logger = logging.getLogger(__name__)

# Where a death must be asked for: often enough that nothing lives on for long after its client,
# seldom enough to cost no battery.
POLL_SECONDS = 2.0

# No system numbers its processes above this; Windows comes closest.
MAX_PID = (1 << 32) - 1

OnDeath: TypeAlias = Callable[[], None]
"""Told once, in the loop. Contract: must not raise or block; never called after a stop."""

Stop: TypeAlias = Callable[[], None]
"""Ends a watch. Contract: idempotent; does not block."""


def watch_process(pid: int, on_death: OnDeath) -> Stop:
    """Watch a process from the running loop.

    Args:
        pid: the process, of any owner. One that is dead already is told of soon; a number that
            no process can have is not watched, for nothing can be learned of it.
        on_death: told once when the process has ended.

    Returns:
        Ends the watch.
    """
    if pid <= 0:
        logger.warning("%d is no process id; nothing is watched", pid)
        return lambda: None
    if pid > MAX_PID:
        return _Poll(_dead, on_death).stop
    if sys.platform == "win32":
        return _Poll(_windows_check(pid), on_death).stop
    if sys.platform == "linux":
        try:
            return _watch_descriptor(os.pidfd_open(pid), on_death)
        except (ProcessLookupError, OverflowError):
            return _Poll(_dead, on_death).stop
        except OSError as error:
            # An old kernel, a sandbox's filter, or no descriptor left: polling needs none.
            logger.info("no descriptor for process %d (%s); polling instead", pid, error)
    return _Poll(_posix_check(pid), on_death).stop


Check: TypeAlias = Callable[[], bool]
"""Whether the process lives. Contract: must not raise or block."""


def _dead() -> bool:
    return False


def _watch_descriptor(descriptor: int, on_death: OnDeath) -> Stop:
    """Watch a Linux process descriptor, which becomes readable when its process ends."""
    loop = asyncio.get_running_loop()
    is_over = False

    def stop() -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def die() -> None:
        stop()
        on_death()

    loop.add_reader(descriptor, die)
    return stop


class _Poll:
    """Asks again and again, the first time soon."""

    def __init__(self, is_alive: Check, on_death: OnDeath) -> None:
        self._is_alive = is_alive
        self._on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle = self._loop.call_soon(self._ask)

    def stop(self) -> None:
        self._next.cancel()

    def _ask(self) -> None:
        if self._is_alive():
            self._next = self._loop.call_later(POLL_SECONDS, self._ask)
        else:
            self._on_death()


def _posix_check(pid: int) -> Check:
    """Ask with signal 0; a parent of ours is asked for by our own parent's number instead.

    That is the surer way: it also sees a zombie, and a number that was given out again.
    """
    if os.getppid() == pid:
        return lambda: os.getppid() == pid

    def is_alive() -> bool:
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            return True  # It lives and belongs to somebody else.
        return True

    return is_alive


def _windows_check(pid: int) -> Check:
    """Hold the process open, so that its number is not given out again, and ask its handle.

    `os.kill` must never be called here: on Windows it ends the process.
    """
    if sys.platform != "win32":
        raise NotImplementedError
    import ctypes
    import weakref

    # Names and numbers from the Windows API: winnt.h, winerror.h, synchapi.h.
    synchronize, error_access_denied, wait_timeout = 0x0010_0000, 5, 0x0000_0102
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel32.OpenProcess.restype = ctypes.c_void_p
    kernel32.WaitForSingleObject.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    kernel32.CloseHandle.argtypes = (ctypes.c_void_p,)
    handle = kernel32.OpenProcess(synchronize, False, ctypes.c_uint32(pid))
    if not handle:
        exists = ctypes.get_last_error() == error_access_denied
        return lambda: exists

    def is_alive() -> bool:
        return bool(kernel32.WaitForSingleObject(handle, 0) == wait_timeout)

    weakref.finalize(is_alive, kernel32.CloseHandle, handle)
    return is_alive
