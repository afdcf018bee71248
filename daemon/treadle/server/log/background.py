"""A log handler that never makes anybody wait: a thread of its own writes.

Owns lines until they are written. Refuses to know what they say and where they go.
An editor that does not read our standard error would stop the event loop as soon as its pipe is
full, and a disk may take seconds; what a thread can not keep up with is dropped and counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from treadle.server.log.words import safe_line, secrets, told

# What waits for a reader that does not read: enough for the story of a failure.
MAX_WAITING_ENTRIES = 1000

# At the end of the process, what still waits gets this long.
FLUSH_SECONDS = 0.5

# One write: so small that a file stays near its bound, so large that a flood takes few of them.
BATCH_BYTES = 64 * 1024


class Entry(NamedTuple):
    """What one record says: the message, then the frames of its exception."""

    at: float
    level: str
    logger: str
    lines: list[str]


class BackgroundLog(logging.Handler):
    """Writes records from a thread of its own.

    Args:
        write: takes whole lines, 64 KiB at most unless one line is longer.
            Contract: may block; an OSError loses them and is told once.
        layout: makes lines of an entry.
        name: the handler's, and its thread's.
        on_failure: called with the first OSError, in that thread.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        layout: Callable[[Entry], list[str]],
        name: str,
        on_failure: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self.set_name(name)
        self._write = write
        self._layout = layout
        self._on_failure = on_failure
        self._has_failed = False
        self._changed = threading.Condition()
        self._waiting: deque[Entry] = deque()
        self._lost = 0
        self._is_writing = False
        self._is_closed = False
        threading.Thread(target=self._run, name=f"treadle-log-{name}", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            lines = told(record)
        except Exception:
            # An argument that does not fit its template is a slip of ours, not a reason to fail.
            lines = [f"a record could not be told: {record.msg!r}"]
        entry = Entry(record.created, record.levelname, record.name, lines)
        with self._changed:
            if len(self._waiting) < MAX_WAITING_ENTRIES:
                self._waiting.append(entry)
            else:
                self._lost += 1
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait, within a bound, until everything is written."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_writing), FLUSH_SECONDS)

    def close(self) -> None:
        """Write what waits, within a bound, and end the thread."""
        self.flush()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        super().close()

    def _run(self) -> None:
        while entries := self._next_entries():
            for batch in self._batches(entries):
                try:
                    self._write(batch)
                except OSError as error:
                    # The next lines are tried all the same: it costs nothing, and disks get room.
                    self._fail(error, batch.count(b"\n"))

    def _next_entries(self) -> list[Entry]:
        """Wait for entries; none are left once the log is closed."""
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            # Unbounded on purpose: a good daemon is silent for days.
            self._changed.wait_for(lambda: bool(self._waiting or self._is_closed))
            entries, lost = list(self._waiting), self._lost
            self._waiting.clear()
            self._lost = 0
            self._is_writing = True
        if entries and lost:
            told_so = f"{lost} further lines were dropped"
            entries.append(Entry(time.time(), "WARNING", __name__, [told_so]))
        return entries

    def _batches(self, entries: list[Entry]) -> Iterator[bytes]:
        hidden = secrets()
        batch = bytearray()
        for entry in entries:
            safe = entry._replace(lines=[safe_line(line, hidden) for line in entry.lines])
            lines = self._layout(safe)
            data = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
            if batch and len(batch) + len(data) > BATCH_BYTES:
                yield bytes(batch)
                batch.clear()
            batch += data
        yield bytes(batch)

    def _fail(self, error: OSError, lines: int) -> None:
        with self._changed:
            self._lost += lines
        if not self._has_failed:
            self._has_failed = True
            self._on_failure(error)
