"""The env of one turn: what flows through the stack, fresh for each turn.

Owns how the list of messages may grow. Refuses to know who stores it or which model answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from treadle.models.completion import ToolSpec
from treadle.stack.events import Events
from treadle.thread.message import Message
from treadle.thread.records import StopReason


class Thread(Protocol):
    """Where a turn's messages are kept.

    Contract: `append` returns once the line is with the operating system; it raises
    `StorageDegraded` when it is not, and then the message was not said.
    """

    async def append(self, message: Message) -> Message:
        """Write the message; return it as it was kept, stamped with turn and time."""


@dataclass(slots=True)
class Env:
    """One turn's state.

    `messages` is one list object for the whole turn and grows only by the methods below;
    `iteration` counts passes of the loop from 1; `metadata` holds `session_id`, `turn`,
    `started_at` and `timings`, and extensions' keys, which contain a dot.
    """

    events: Events
    messages: list[Message] = field(default_factory=list)
    tools: list[ToolSpec] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    iteration: int = 1
    should_exit: bool = False
    stop_reason: StopReason | None = None
    thread: Thread | None = None
    turn_start: int = 0  # where this turn's own messages begin
    model_calls: int = 0
    placed: int = 0  # how many messages came by the methods below; lint counts against it

    async def append(self, message: Message) -> None:
        """Say a message: it is on disk, if there is a thread, before anybody sees it.

        Raises:
            StorageDegraded: it could not be written, so it was not said.
        """
        if self.thread is not None:
            message = await self.thread.append(message)
        self.messages.append(message)
        self.placed += 1

    async def resume(self, thread: Thread, history: Sequence[Message]) -> None:
        """Write this turn's input to `thread` and place `history` before it: SessionLog does.

        Raises:
            StorageDegraded: the input could not be written.
        """
        self.thread = thread
        for index, message in enumerate(self.messages):
            self.messages[index] = await thread.append(message)
        self._place(history)

    def instruct(self, text: str) -> None:
        """Place the one system message at the head, never stored: SystemPrompt does."""
        self._place([Message("system", text)])

    def emit(self, name: str, payload: object) -> None:
        """Tell the agent's subscribers."""
        if name == "model_call":
            self.model_calls += 1
        self.events.emit(name, self, payload)

    def _place(self, before: Sequence[Message]) -> None:
        self.messages[:0] = before
        self.placed += len(before)
        self.turn_start += len(before)
