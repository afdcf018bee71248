"""A connection's side of session events: in order, bounded, deltas joined for slow readers.

Owns what is held back for a client. Refuses to know how anything is encoded and sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.models.completion import Delta
from treadle.protocol.base import WireStruct
from treadle.runtime.client import Client
from treadle.runtime.outbox import Pair, Said, SessionEvent
from treadle.server.bridge import delta_notification, notification
from treadle.server.joining import Joined, is_late


@dataclass(slots=True)
class _Held:
    """Neighbouring deltas of one session and kind that have not been sent."""

    last: SessionEvent
    joined: Joined = field(default_factory=Joined)


class Feed:
    """Turns session events into notifications.

    Args:
        send: sends one notification.
        pending_bytes: tells how much the client has not taken yet.
        opt_out: notifications that the client does not want.
        client: who is told nothing of what it has said itself.
    """

    def __init__(
        self,
        send: Callable[[str, WireStruct], None],
        pending_bytes: Callable[[], int],
        opt_out: frozenset[str],
        client: Client | None = None,
    ) -> None:
        self._send = send
        self._pending_bytes = pending_bytes
        self._opt_out = opt_out
        self._client = client
        self._held: dict[Pair, _Held] = {}

    def take(self, event: SessionEvent) -> None:
        """Send an event, or hold it when it is a delta that can be joined to others."""
        if isinstance(event.payload, Delta):
            self._take_delta(event, event.payload)
            return
        if isinstance(event.payload, Said) and event.payload.by is self._client is not None:
            return
        self._release(event.pair)
        method, params = notification(event)
        if method not in self._opt_out:
            self._send(method, params)

    def drop(self, pair: Pair) -> None:
        """Forget what is held of a session that is watched no more."""
        self._held.pop(pair, None)

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
        if held is None and not is_late(self._pending_bytes()):
            self._send("session/delta", delta_notification(event, delta.text, joined=1))
            return
        if held is None:
            held = self._held[event.pair] = _Held(event)
        held.last = event
        held.joined.add(delta.text)
        if held.joined.is_full:
            self._release(event.pair)

    def _release(self, pair: Pair) -> None:
        held = self._held.pop(pair, None)
        if held is not None:
            joined = held.joined
            params = delta_notification(held.last, joined.text, joined=len(joined.parts))
            self._send("session/delta", params)


def _same_run(first: SessionEvent, second: SessionEvent) -> bool:
    return (
        (first.turn, first.task) == (second.turn, second.task)
        and isinstance(first.payload, Delta)
        and isinstance(second.payload, Delta)
        and first.payload.kind == second.payload.kind
    )
