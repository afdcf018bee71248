"""Watching a session: `session/attach` and `session/detach`, and what watchers tell each other."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from treadle.protocol.base import Address, WireStruct
from treadle.protocol.notifications import SessionNotification
from treadle.protocol.sessions import State, WireMessage

Seq = Annotated[int, msgspec.Meta(ge=0)]


class AttachParams(Address):
    """Watch a session; `since` is the last `seq` that was heard, of the daemon's life `epoch`."""

    since: Seq | None = None
    epoch: str | None = None


class WireSaid(WireStruct):
    """A piece of what the model says and that is no message yet."""

    kind: Literal["text", "reasoning"]
    text: str


class PendingQuestion(WireStruct):
    """A question that nobody has answered yet: a request of ours, its params among them."""

    id: int
    method: Literal["session/requestPermission", "session/ask"]
    params: dict[str, Any]


class Snapshot(WireStruct):
    """A session at one moment.

    `messages` are those of the turn that runs, `said` what the model says behind them, `omitted`
    counts earlier ones of that turn that were left out; `session/read` has them.
    """

    state: State
    queued: int
    storage: Literal["ok", "degraded"]
    turn: int | None = None
    messages: list[WireMessage]
    said: list[WireSaid]
    pending: list[PendingQuestion]
    omitted: int = 0


class AttachResult(WireStruct):
    """Where the watching begins: every event behind `seq` follows, each once.

    `watchers` counts the connections that watch now, this one among them.

    Whoever gave a `since` that is still kept gets no snapshot, for the events follow that were
    missed. With `truncated` they are gone, or of another daemon's life (`epoch`).
    """

    seq: int
    epoch: str
    truncated: bool
    watchers: int
    snapshot: Snapshot | None = None


class DetachParams(Address):
    """Watch a session no more."""


class DetachResult(WireStruct):
    """Whether it was watched."""

    detached: bool


class AskedNotification(SessionNotification):
    """A question is open, with the params of the request by which it is put to those who can
    answer it; whoever watches may."""

    id: int
    method: Literal["session/requestPermission", "session/ask"]
    params: dict[str, Any]


class SettledNotification(SessionNotification):
    """A question is open no more: it was answered, by whomever, or nobody did, or it is moot."""

    id: int
    outcome: Literal["allow_once", "allow_session", "deny", "answered", "unanswered", "withdrawn"]


class SaidNotification(SessionNotification):
    """What another client said to the session; `seq` is that of the event before it.

    A very long one is `truncated`; `session/read` has the whole of it.
    """

    text: str
    truncated: bool = False
