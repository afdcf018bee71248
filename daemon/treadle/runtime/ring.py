"""What a session told last, kept for watchers that come back.

Owns how much that is: a bound for each session, and one for all of them together.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.models.completion import Delta
from treadle.turn.events import ToolCallStarted, ToolResultLanded, TurnDone

if TYPE_CHECKING:
    from treadle.runtime.outbox import Payload, SessionEvent

# A watcher that was away for a minute of a fast answer finds all of it.
RING_BYTES = 512 << 10

# All sessions together: what a daemon may keep for those who are away.
ALL_BYTES = 64 << 20

# What an event costs beside its text: two objects, and a place in the ring.
EVENT_BYTES = 250


@dataclass(slots=True)
class Kept:
    """How much all rings of a daemon hold."""

    size_bytes: int = 0


class Ring:
    """The last events of one session, the oldest first.

    Args:
        kept: what all rings hold.
        last_seq: the number of the last event before this ring began.

    Attributes:
        lost_through: the number up to which nothing is kept.
    """

    __slots__ = ("_events", "_kept", "_size_bytes", "lost_through")

    def __init__(self, kept: Kept, last_seq: int) -> None:
        self.lost_through = last_seq
        self._kept = kept
        self._size_bytes = 0
        self._events: deque[tuple[SessionEvent, int]] = deque()

    def add(self, event: SessionEvent) -> None:
        """Keep an event; the oldest ones go where there is no room for all."""
        cost = EVENT_BYTES + _text_length(event.payload)
        self._events.append((event, cost))
        self._size_bytes += cost
        self._kept.size_bytes += cost
        while self._size_bytes > RING_BYTES or (
            self._kept.size_bytes > ALL_BYTES and len(self._events) > 1
        ):
            self._drop()

    def since(self, seq: int) -> list[SessionEvent] | None:
        """Return all events behind a number; None where not all of them are kept."""
        if seq < self.lost_through:
            return None
        found = []
        for event, _ in reversed(self._events):
            if event.seq <= seq:
                break
            found.append(event)
        found.reverse()
        return found

    def clear(self) -> None:
        """Keep nothing of what was told so far."""
        while self._events:
            self._drop()

    def _drop(self) -> None:
        event, cost = self._events.popleft()
        self.lost_through = event.seq
        self._size_bytes -= cost
        self._kept.size_bytes -= cost


def _text_length(payload: Payload) -> int:
    """Return about how much text an event holds; quick, because each delta is asked for it."""
    if isinstance(payload, Delta):
        return len(payload.text)
    if isinstance(payload, ToolResultLanded):
        return len(payload.message.text)
    if isinstance(payload, ToolCallStarted):
        return len(str(payload.call.arguments))
    if isinstance(text := getattr(payload, "text", None), str):
        return len(text)
    done = getattr(payload, "done", None)
    return len(done.text) if isinstance(done, TurnDone) else 0
