"""Lines that were said and could not be written yet: in order, none dropped.

Owns their order and their size. Refuses to know why they wait.
"""

from __future__ import annotations

from collections import deque

# What waits is in memory twice, as messages and as lines. A disk that stays full for a day of
# talk leaves a few megabytes; beyond this no new turn begins, and a running one still ends.
BACKLOG_BYTES = 64 << 20


class Backlog:
    """What waits to be written.

    Lines may be added while another thread takes them from the front.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        # Two sums, each of one thread: one that both change would have to be locked.
        self._added_bytes = 0
        self._dropped_bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size_bytes(self) -> int:
        """The size of all of it."""
        return self._added_bytes - self._dropped_bytes

    @property
    def first(self) -> bytes:
        """The line that is to be written next, with its line end; empty where none waits."""
        return self._lines[0] if self._lines else b""

    def add(self, line: bytes) -> None:
        """Put a line, with its line end, behind the others."""
        self._added_bytes += len(line)
        self._lines.append(line)

    def drop_first(self) -> None:
        """Forget the first line: it was written."""
        self._dropped_bytes += len(self._lines.popleft())

    def clear(self) -> None:
        """Forget all of it: the thread it belongs to was deleted."""
        while self._lines:
            self.drop_first()

    def lines(self) -> list[bytes]:
        """Return all of it, as it stands now."""
        return list(self._lines)
