"""A wait for a descriptor that another thread can end.

Owns the difference between systems: POSIX polls beside a pipe of our own, so that a thread can
be called back; Windows has nothing like it for pipes and reads and writes there just block.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading


class Readiness:
    """Waits until one descriptor can be read, or written, or until it is interrupted.

    Contract: `wait` and `close` are for one thread; `interrupt` may come from any.
    """

    def __init__(self, descriptor: int, *, for_writing: bool) -> None:
        self._descriptor = descriptor
        self._for_writing = for_writing
        self._lock = threading.Lock()
        self._bell: tuple[int, int] | None = None if sys.platform == "win32" else os.pipe()

    def wait(self) -> None:
        """Block until the descriptor is ready, failed or at its end, or until interrupted.

        It may come back early: the caller tries, and waits again when it was too soon.
        """
        if sys.platform == "win32" or self._bell is None:
            return
        import select

        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT if self._for_writing else select.POLLIN)
        poll.register(self._bell[0], select.POLLIN)
        poll.poll()

    def interrupt(self) -> None:
        """End a wait, this one or the next, for good."""
        with self._lock:
            if self._bell is not None:
                # Nothing reads it, so one byte is enough and the pipe stays readable.
                with contextlib.suppress(BlockingIOError):
                    os.write(self._bell[1], b"!")

    def close(self) -> None:
        """Give the bell back; later interrupts do nothing."""
        with self._lock:
            bell, self._bell = self._bell, None
        for end in bell or ():
            os.close(end)
