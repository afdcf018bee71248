"""The completion seam: what sits at the bottom of a turn's stack, and what it may see.

A completion is any `async` callable that takes an env, does exactly one model call,
emits its deltas and appends one assistant message.
Owns what a model is told and what it may change. Refuses to know layers, tools' code and models.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from treadle.thread.blobs import Blobs
from treadle.thread.message import Message
from treadle.thread.records import StopReason


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer as it grows: the payload of the event `delta`."""

    kind: Literal["text", "reasoning"]
    text: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The payload of the event `model_call`, emitted before the request leaves."""

    model: str
    messages: int


class CompletionEnv(Protocol):
    """The part of a turn's env that a completion may see and change.

    Contract: `messages` is only read; a completion that was cut short by the provider's limit
    or refusal sets `stop_reason` and `should_exit`.
    """

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation to send, valid for any provider: SessionLog restored it so."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools to offer, in a stable order."""

    @property
    def blobs(self) -> Blobs:
        """Where the bytes are that messages refer to; read them in a worker thread."""

    should_exit: bool
    stop_reason: StopReason | None

    async def append(self, message: Message) -> None:
        """Say the one assistant message; it is on disk when this returns."""

    def emit(self, name: str, payload: object) -> None:
        """Emit `delta` or `model_call`."""


Completion: TypeAlias = Callable[[CompletionEnv], Awaitable[None]]
"""Called with a `CompletionEnv`.

Contract: raises only errors of `treadle.errors`; when it is cancelled or the stream breaks it
first appends the text that had come as an assistant message marked `partial`, without calls.
"""
