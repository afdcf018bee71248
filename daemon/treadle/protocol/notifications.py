"""What the daemon tells of a session without being asked.

Each carries the pair and `seq`, which rises by one per session and never starts again
within a daemon's life.
"""

from __future__ import annotations

from typing import Any, Literal

from treadle.protocol.base import Address, WireStruct, WireUsage
from treadle.protocol.sessions import State, StopReason


class SessionNotification(Address):
    """What every notification of a session carries; `turn` where it belongs to one.

    With a `task` it tells of that task of the turn: of what a sub-agent says and does.
    """

    seq: int
    turn: int | None = None
    task: int | None = None


class StateNotification(SessionNotification):
    """The session's state changed, or the number of prompts that wait."""

    state: State
    queued: int
    storage: Literal["ok", "degraded"]


class DeltaNotification(SessionNotification):
    """A piece of the answer.

    A client that reads slowly gets neighbouring pieces as one: `joined` says how many,
    and `seq` is the last one's.
    """

    kind: Literal["text", "reasoning"]
    text: str
    joined: int = 1


class ToolCallNotification(SessionNotification):
    """A tool is about to run."""

    id: str
    name: str
    arguments: dict[str, Any]
    capability: str


class ToolProgressNotification(SessionNotification):
    """How far a running call is; `done` of `total` where it counts something.

    It comes between the call's `toolCall` and its `toolResult`, some ten times a second at most.
    """

    id: str
    message: str = ""
    done: float | None = None
    total: float | None = None


class ToolResultNotification(SessionNotification):
    """A tool's result is in the thread."""

    id: str
    name: str
    ok: bool
    content: str
    truncated: bool
    duration_ms: int


class RetryingNotification(SessionNotification):
    """A model call failed before it said anything; it is made again after a wait.

    `attempt` counts what was tried in vain, from 1; `reason` is that of the error.
    """

    attempt: int
    reason: str
    retry_in_seconds: float


class WireError(WireStruct):
    """An error as a reply would carry it."""

    code: int
    message: str
    data: dict[str, Any] | None = None


class DoneNotification(SessionNotification):
    """The turn is over; nothing of it follows but the prompt's reply."""

    stop_reason: StopReason
    text: str
    usage: WireUsage
    error: WireError | None = None
