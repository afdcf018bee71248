"""The env of one turn: what flows through the stack, fresh for each turn.

Owns how the list of messages may change. Refuses to know who stores it or which model answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from treadle.errors import ConfigurationError
from treadle.models.completion import Delta, ToolSpec
from treadle.secrets import SecretStream, known
from treadle.stack.events import Events
from treadle.thread.attachments import brings_bytes
from treadle.thread.blobs import Blobs
from treadle.thread.history import quoted
from treadle.thread.message import Message, Usage
from treadle.thread.records import StopReason
from treadle.turn.events import TurnDone


class Thread(Protocol):
    """Where a turn's messages are kept, and in `blobs` the bytes that they refer to.

    Contract: `append` returns once the line is with the operating system, or waits in memory
    because it cannot be written now, which whoever opened the thread is told. It does not
    suspend, so that a cancel cannot fall between what is kept and what is said.
    """

    blobs: Blobs

    async def append(self, message: Message) -> Message:
        """Write the message; return it as it was kept, stamped with turn and time."""


@dataclass(slots=True)
class Env:
    """One turn's state.

    Args:
        events: whom `emit` tells.
        messages: the turn's input at first; one list object for the whole turn, which changes only
            by the methods below.
        metadata: `session_id`, `turn`, `started_at`, `timings` (where the turn's time went, in
            seconds, by `timed`), `key` and `asked` (under which its prompt runs once, and a
            digest of that), and extensions' keys, which contain a dot.
        tools: what the model is told it may call.
        iteration: the passes of the loop, counted from 1.
        should_exit: set by whoever wants the loop to end after this pass.
        stop_reason: set by whoever ends the turn; None for an ordinary end.
        thread: where messages are kept; set by SessionLog.
        done: how the turn ended; set by whoever records that, so that it is decided once.
        model_calls: how many were announced; one that is made again counts once.
        beside: what model calls beside the conversation cost; the turn's usage counts it too.
        deltas: how many were emitted.
        answers: how many messages the model has said in this turn, shown any more or not.
        answer: the text of the last one.
        spent: what the calls that made them cost.
        placed: how many messages are there by the methods below; lint counts against it.
    """

    events: Events
    messages: list[Message] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    tools: list[ToolSpec] = field(default_factory=list)
    iteration: int = 1
    should_exit: bool = False
    stop_reason: StopReason | None = None
    thread: Thread | None = None
    done: TurnDone | None = None
    model_calls: int = 0
    beside: Usage = field(default_factory=Usage)
    deltas: int = 0
    answers: int = 0
    answer: str = ""
    spent: Usage = field(default_factory=Usage)
    placed: int = field(init=False)
    _saying: dict[Literal["text", "reasoning"], SecretStream] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        self.placed = len(self.messages)

    @property
    def blobs(self) -> Blobs:
        """Where the bytes are that messages refer to; without a thread they have them."""
        return Blobs(None) if self.thread is None else self.thread.blobs

    async def prepare(self, *messages: Message) -> None:
        """Write ahead the bytes that messages bring along, so that `append` need not suspend."""
        if self.thread is not None and any(map(brings_bytes, messages)):
            await self.thread.blobs.prepare(*messages)

    async def append(self, message: Message) -> None:
        """Say a message: it is on disk, if there is a thread, before anybody sees it.

        On a disk that cannot be written the thread keeps it in memory until it can.
        """
        self._end_deltas()
        if self.thread is not None:
            message = quoted(await self.thread.append(message))
        self.messages.append(message)
        self.placed += 1
        if message.role == "assistant":
            self.answers += 1
            self.answer = message.text
            self.spent += message.usage or Usage()

    async def resume(self, thread: Thread, history: Sequence[Message]) -> None:
        """Write this turn's input to `thread` and place `history` before it: SessionLog does.

        Raises:
            ConfigurationError: there are instructions already, and they are never stored.
        """
        if self.messages[0].role == "system":
            raise ConfigurationError("SystemPrompt stands outside SessionLog; it belongs inside")
        self.thread = thread
        await self.prepare(*self.messages)
        for index, message in enumerate(self.messages):
            # As a later turn will see it, so that what was sent once stays the same.
            self.messages[index] = quoted(await thread.append(message))
        self._place(history)

    def show(self, view: Sequence[Message]) -> None:
        """Put a view of the thread in the place of all that is there: Compaction does.

        The instructions stay as they are, byte for byte.
        """
        first = 1 if self.messages[0].role == "system" else 0
        self.messages[first:] = view
        self.placed = len(self.messages)

    def instruct(self, text: str) -> None:
        """Make `text` the one system message, at the head and never stored: SystemPrompt does."""
        if self.messages[0].role == "system":
            self.messages[0] = Message("system", text)
        else:
            self._place([Message("system", text)])

    def emit(self, name: str, payload: object) -> None:
        """Tell the agent's subscribers.

        A delta is told without secrets: what may still become one waits for the next delta, or
        for whatever else is told or said.
        """
        if name == "delta" and isinstance(payload, Delta):
            self.deltas += 1
            self._emit_delta(payload)
            return
        self._end_deltas()
        if name == "model_call":
            self.model_calls += 1
        self.events.emit(name, self, payload)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time the `with` block takes to `metadata["timings"]`, under `name`."""
        began = time.monotonic()
        try:
            yield
        finally:
            timings = self.metadata.setdefault("timings", {})
            timings[name] = timings.get(name, 0.0) + time.monotonic() - began

    def _emit_delta(self, delta: Delta) -> None:
        stream = self._saying.get(delta.kind)
        if stream is None:
            stream = self._saying[delta.kind] = SecretStream(known())
        text = stream.take(delta.text)
        if text is delta.text:
            self.events.emit("delta", self, delta)
        elif text:
            self.events.emit("delta", self, Delta(delta.kind, text))

    def _end_deltas(self) -> None:
        """Tell what is still held back of a model call's text: nothing follows it."""
        saying, self._saying = self._saying, {}
        for kind, stream in saying.items():
            if text := stream.rest():
                self.events.emit("delta", self, Delta(kind, text))

    def _place(self, before: Sequence[Message]) -> None:
        self.messages[:0] = before
        self.placed += len(before)
