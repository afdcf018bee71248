"""What we ask a client: whether a call may run, and a model's questions to the person.

Only of clients that said that they can answer; `window/showMessageRequest` is LSP's own.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from treadle.protocol.base import Address, WireStruct
from treadle.protocol.sessions import WireToolCall

PermissionOutcome: TypeAlias = Literal["allow_once", "allow_session", "deny"]


class SessionRequest(Address):
    """What each request about a session carries: the turn that asks, and how long it waits.

    `question` is the `id` of its `session/asked` and `session/settled`.
    """

    turn: int
    question: int
    expires_in_seconds: float


class PermissionParams(SessionRequest):
    """A call that the person is to allow, with these very arguments.

    `detail` says on one line what it would do; `preview` is the whole of it, such as a diff, where
    the line does not say all; `covers` says what `allow_session` would allow: a command, or
    every call of a tool. Whatever is no outcome of `options` counts as `deny`. With a `task`
    it is a sub-agent that makes the call.
    """

    call: WireToolCall
    capability: str
    detail: str
    preview: str = ""
    covers: str
    task: int | None = None
    options: list[PermissionOutcome]


class PermissionResult(WireStruct):
    """The person's answer."""

    outcome: PermissionOutcome


class WireQuestion(WireStruct):
    """One question of a model; `options` are answers to choose from, and others are possible."""

    id: str
    text: str
    options: list[str] = []


class AskParams(SessionRequest):
    """What a model wants to know of the person."""

    questions: list[WireQuestion]


class AskResult(WireStruct):
    """The answers, by the questions' ids."""

    answers: dict[str, str]


class MessageAction(WireStruct):
    """A button."""

    title: str


class ShowMessageRequestParams(WireStruct):
    """Words for the person, and buttons to answer with; `type` 2 is LSP's number for a warning."""

    type: Literal[2]
    message: str
    actions: list[MessageAction]


class ShowMessageRequestResult(WireStruct):
    """The button that was chosen; what else a client tells of it is nothing to us."""

    title: Any
