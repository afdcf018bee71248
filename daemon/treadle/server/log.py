"""The daemon's log on standard error, which never makes the daemon wait.

Owns lines until they are written. Refuses to know what they say.
An editor that does not read our standard error would stop the event loop as soon as its pipe is
full, so a thread writes; what it can not keep up with is dropped and counted.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque

# What waits for a standard error that nobody reads: enough for the story of a failure.
MAX_WAITING_LINES = 1000

# At the end of the process, what still waits gets this long.
FLUSH_SECONDS = 0.5


class BackgroundLog(logging.Handler):
    """Writes records to a descriptor from a thread of its own.

    Args:
        fd: where lines go; stays its owner's.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._is_writing = False
        threading.Thread(target=self._run, name="treadle-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            line = self.format(record)
        except Exception:
            line = f"a log record could not be formatted: {record.msg!r}"
        with self._changed:
            if len(self._waiting) < MAX_WAITING_LINES:
                self._waiting.append(line)
            else:
                self._lost += 1
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait, within a bound, until everything is written."""
        with self._changed:
            self._changed.wait_for(
                lambda: not (self._waiting or self._lost or self._is_writing), FLUSH_SECONDS
            )

    def _run(self) -> None:
        while True:
            lines = self._next_lines()
            try:
                _write_all(self._fd, ("\n".join(lines) + "\n").encode(errors="backslashreplace"))
            except OSError:
                # Nobody reads any more. The next lines are tried all the same: it costs nothing.
                continue

    def _next_lines(self) -> list[str]:
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            # Unbounded on purpose: a good daemon is silent for days.
            self._changed.wait_for(lambda: bool(self._waiting or self._lost))
            lines, lost = list(self._waiting), self._lost
            self._waiting.clear()
            self._lost = 0
            self._is_writing = True
        return [*lines, f"treadle: {lost} further lines were dropped"] if lost else lines


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
