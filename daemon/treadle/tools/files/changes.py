"""What a session's tools changed in files: kept whole, so that it can be undone and done again.

Owns the order of changes. Refuses to know how files are written.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# Whoever undoes more than this means a version control system.
KEPT_CHANGES = 200
# The bytes before and after all kept changes; the oldest are forgotten first.
KEPT_BYTES = 64 * 1024 * 1024

# Calls that were shown to a person; of those that were denied nobody asks again.
_PROMISES = 100


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file, before and after a call; None where there is no file."""

    place: str
    before: bytes | None
    after: bytes | None

    @property
    def size_bytes(self) -> int:
        """What keeping it costs."""
        return len(self.before or b"") + len(self.after or b"")


@dataclass(frozen=True, slots=True)
class Change:
    """What one call did; `what` names it to the model: the tool and its paths."""

    what: str
    files: tuple[FileChange, ...]

    @property
    def size_bytes(self) -> int:
        """What keeping it costs."""
        return sum(file.size_bytes for file in self.files)


class Changes:
    """The changes of one session, the newest last, and those that were undone."""

    def __init__(self) -> None:
        self._done: deque[Change] = deque()
        self._undone: list[Change] = []
        self._size_bytes = 0
        self._promised: dict[str, Change] = {}

    def add(self, change: Change) -> None:
        """Note a change; what was undone before cannot be done again after it."""
        self._undone.clear()
        self._push(change)

    def last(self) -> Change | None:
        """Return the change that `undo` would take back."""
        return self._done[-1] if self._done else None

    def last_undone(self) -> Change | None:
        """Return the change that would be done again."""
        return self._undone[-1] if self._undone else None

    def note_undone(self) -> None:
        """Note that the last change was taken back."""
        change = self._done.pop()
        self._size_bytes -= change.size_bytes
        self._undone.append(change)

    def note_redone(self) -> None:
        """Note that the change that was undone last was done again."""
        self._push(self._undone.pop())

    def pass_over(self, change: Change) -> None:
        """Forget a change, next in either direction, that its files no longer allow."""
        if self.last_undone() is change:
            self._undone.pop()
        elif self.last() is change:
            self._size_bytes -= self._done.pop().size_bytes

    def promise(self, call_id: str, change: Change) -> None:
        """Note which change a person was shown by a call that asks to be allowed."""
        self._promised[call_id] = change
        while len(self._promised) > _PROMISES:
            del self._promised[next(iter(self._promised))]

    def promised(self, call_id: str) -> Change | None:
        """Return what was promised by a call, once; None where nobody was asked."""
        return self._promised.pop(call_id, None)

    def _push(self, change: Change) -> None:
        self._done.append(change)
        self._size_bytes += change.size_bytes
        while len(self._done) > 1 and (
            len(self._done) > KEPT_CHANGES or self._size_bytes > KEPT_BYTES
        ):
            self._size_bytes -= self._done.popleft().size_bytes
