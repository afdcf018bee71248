"""A session's events, numbered, for whoever watches it, also for those who come back.

Owns `seq`. Knows nothing of connections: a watcher is a function, and who may be asked a `Client`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.compaction.told import Compacted, Compacting
from treadle.errors import TreadleError
from treadle.mcp.status import ServerStatus
from treadle.models.completion import Delta
from treadle.runtime.audience import Audience, QuestionAsked, QuestionSettled
from treadle.runtime.client import Client
from treadle.runtime.pair import Pair
from treadle.runtime.ring import Kept, Ring
from treadle.turn.events import (
    Retrying,
    ToolCallStarted,
    ToolProgressed,
    ToolResultLanded,
    TurnDone,
)

logger = logging.getLogger(__name__)

__all__ = [
    "TASK_PAYLOADS",
    "Outbox",
    "Pair",
    "Payload",
    "QuestionAsked",
    "QuestionSettled",
    "Said",
    "SessionEvent",
    "State",
    "StateChanged",
    "Storage",
    "TurnEnded",
    "TurnPayload",
    "Watcher",
]


State: TypeAlias = Literal["idle", "running", "waiting", "closed"]
Storage: TypeAlias = Literal["ok", "degraded"]


@dataclass(frozen=True, slots=True)
class StateChanged:
    """What the session does now, how many prompts wait, and whether its thread can be written.

    The number of those that wait says nothing while the session is closed.
    """

    state: State
    queued: int
    storage: Storage = "ok"


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn's last event; `error` is what its prompt's reply will carry."""

    done: TurnDone
    error: TreadleError | None


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said to the session, for those who did not say it themselves.

    It has the number of the event before it, and is no event of its own: who said it needs none.

    Args:
        text: in words.
        by: whose it is, if that client can be asked anything.
        truncated: there is more of it.
    """

    text: str
    by: Client | None
    truncated: bool = False


TurnPayload: TypeAlias = (
    Delta
    | ToolCallStarted
    | ToolProgressed
    | ToolResultLanded
    | Retrying
    | Compacting
    | Compacted
    | TurnEnded
)
Payload: TypeAlias = (
    StateChanged | ServerStatus | QuestionAsked | QuestionSettled | Said | TurnPayload
)
# What is told of a task; its end is the result of the call that gave it.
TASK_PAYLOADS = (
    Delta,
    ToolCallStarted,
    ToolProgressed,
    ToolResultLanded,
    Retrying,
    Compacting,
    Compacted,
)


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One numbered event of a session; with a `task`, of that sub-agent in its turn."""

    pair: Pair
    seq: int
    turn: int | None
    payload: Payload
    task: int | None = None


Watcher: TypeAlias = Callable[[SessionEvent], None]
"""Contract: must not block or suspend; what it raises is logged and reaches no other watcher."""


class Outbox:
    """Numbers a session's events and hands each to every watcher, in order.

    Args:
        pair: whose session.
        last_seq: the last number that its events have used in this daemon's life.
        kept: what all sessions keep for watchers that come back.

    Attributes:
        audience: the watchers that can be asked something.
        last_seq: the number of the last event.
    """

    def __init__(self, pair: Pair, last_seq: int, kept: Kept | None = None) -> None:
        self.pair = pair
        self.audience = Audience(self.emit)
        self.last_seq = last_seq
        self._watchers: list[Watcher] = []
        self._ring = Ring(kept or Kept(), last_seq)
        self._step_seq = last_seq

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._watchers)

    @property
    def watcher_count(self) -> int:
        """How many watch."""
        return len(self._watchers)

    def has_others(self) -> bool:
        """Whether others than one watch."""
        return len(self._watchers) > 1

    def watch(self, watcher: Watcher, client: Client | None = None) -> None:
        """Hand every event from now on to `watcher`; watching twice changes nothing.

        Args:
            watcher: told of events.
            client: who may be asked what is asked here.
        """
        if watcher not in self._watchers:
            self._watchers.append(watcher)
        if client is not None:
            self.audience.join(client)

    def unwatch(self, watcher: Watcher, client: Client | None = None) -> None:
        """Stop handing events to `watcher`, and ask its client nothing more."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        if client is not None:
            self.audience.leave(client)

    def since(self, seq: int) -> list[SessionEvent] | None:
        """Return every event behind a number; None where that cannot be told any more."""
        return None if seq > self.last_seq else self._ring.since(seq)

    def begin_step(self) -> None:
        """Note that a step begins: what is said from now on is said in it."""
        self._step_seq = self.last_seq

    def of_this_step(self) -> list[SessionEvent]:
        """Return what is kept of the events of the step that runs."""
        return self._ring.since(max(self._step_seq, self._ring.lost_through)) or []

    def forget(self) -> None:
        """Keep nothing for those who come back: the session rests."""
        self._ring.clear()

    def emit(self, payload: Payload, turn: int | None = None, task: int | None = None) -> None:
        """Number an event and hand it out."""
        self.last_seq += 1
        self._hand_out(SessionEvent(self.pair, self.last_seq, turn, payload, task))

    def note(self, said: Said, turn: int | None) -> None:
        """Hand out what was said, right behind the event before it."""
        self._hand_out(SessionEvent(self.pair, self.last_seq, turn, said))

    def _hand_out(self, event: SessionEvent) -> None:
        self._ring.add(event)
        for watcher in tuple(self._watchers):
            try:
                watcher(event)
            except Exception:
                logger.exception("a watcher of a session raised")
