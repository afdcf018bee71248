"""A connection's side of session events: in order, bounded, deltas joined for slow readers.

Owns what is held back for a client. Refuses to know how anything is encoded and sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.models.completion import Delta
from treadle.protocol.base import WireStruct
from treadle.runtime.outbox import Pair, SessionEvent
from treadle.server.bridge import delta_notification, notification
from treadle.server.wire.writer import HIGH_WATER_BYTES

# While more than this is on its way to the client, neighbouring deltas are joined. The writer tells
# that it is low again only after it had this much: what was held below it could wait for ever.
JOIN_ABOVE_BYTES = HIGH_WATER_BYTES

# What is joined is sent when it has grown to this: then it counts as sent, so that a client that
# never reads again is noticed, and no notification is a burden to one that does.
MAX_JOINED_CHARACTERS = 1 << 20


@dataclass(slots=True)
class _Held:
    """Neighbouring deltas of one session and kind that have not been sent."""

    last: SessionEvent
    parts: list[str] = field(default_factory=list)
    characters: int = 0

    def add(self, event: SessionEvent, text: str) -> None:
        self.last = event
        self.parts.append(text)
        self.characters += len(text)


class Feed:
    """Turns session events into notifications.

    Args:
        send: sends one notification.
        pending_bytes: tells how much the client has not taken yet.
        opt_out: notifications that the client does not want.
    """

    def __init__(
        self,
        send: Callable[[str, WireStruct], None],
        pending_bytes: Callable[[], int],
        opt_out: frozenset[str],
    ) -> None:
        self._send = send
        self._pending_bytes = pending_bytes
        self._opt_out = opt_out
        self._held: dict[Pair, _Held] = {}

    def take(self, event: SessionEvent) -> None:
        """Send an event, or hold it when it is a delta that can be joined to others."""
        if isinstance(event.payload, Delta):
            self._take_delta(event, event.payload)
            return
        self._release(event.pair)
        method, params = notification(event)
        if method not in self._opt_out:
            self._send(method, params)

    def release_all(self) -> None:
        """Send what is held: the client reads again."""
        for pair in tuple(self._held):
            self._release(pair)

    def _take_delta(self, event: SessionEvent, delta: Delta) -> None:
        if "session/delta" in self._opt_out:
            return
        held = self._held.get(event.pair)
        if held is not None and not _same_run(held.last, event):
            self._release(event.pair)
            held = None
        if held is None and self._pending_bytes() <= JOIN_ABOVE_BYTES:
            self._send("session/delta", delta_notification(event, delta.text, joined=1))
            return
        if held is None:
            held = self._held[event.pair] = _Held(event)
        held.add(event, delta.text)
        if held.characters >= MAX_JOINED_CHARACTERS:
            self._release(event.pair)

    def _release(self, pair: Pair) -> None:
        held = self._held.pop(pair, None)
        if held is not None:
            text = "".join(held.parts)
            params = delta_notification(held.last, text, joined=len(held.parts))
            self._send("session/delta", params)


def _same_run(first: SessionEvent, second: SessionEvent) -> bool:
    return (
        first.turn == second.turn
        and isinstance(first.payload, Delta)
        and isinstance(second.payload, Delta)
        and first.payload.kind == second.payload.kind
    )
