"""A session's events, numbered, for whoever watches it.

Owns `seq`. Knows nothing of connections: a watcher is a function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from treadle.compaction.told import Compacted, Compacting
from treadle.errors import TreadleError
from treadle.mcp.status import ServerStatus
from treadle.models.completion import Delta
from treadle.turn.events import (
    Retrying,
    ToolCallStarted,
    ToolProgressed,
    ToolResultLanded,
    TurnDone,
)

logger = logging.getLogger(__name__)


class Pair(NamedTuple):
    """The address of a session."""

    agent: str
    instance: str


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
Payload: TypeAlias = StateChanged | ServerStatus | TurnPayload
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
    """Numbers a session's events and hands each to every watcher, in order."""

    def __init__(self, pair: Pair, last_seq: int) -> None:
        self.pair = pair
        self._watchers: list[Watcher] = []
        self.last_seq = last_seq

    def watch(self, watcher: Watcher) -> None:
        """Hand every event from now on to `watcher`; watching twice changes nothing."""
        if watcher not in self._watchers:
            self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop handing events to `watcher`."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def emit(self, payload: Payload, turn: int | None = None, task: int | None = None) -> None:
        """Number an event and hand it out."""
        self.last_seq += 1
        event = SessionEvent(self.pair, self.last_seq, turn, payload, task)
        for watcher in tuple(self._watchers):
            try:
                watcher(event)
            except Exception:
                logger.exception("a watcher of a session raised")
