"""The events of a turn and their payloads.

| event           | payload            | when                                       |
|-----------------|--------------------|--------------------------------------------|
| `turn`          | `TurnStarted`      | the turn begins; nothing of it is kept yet |
| `step`          | `StepStarted`      | before each pass of the loop               |
| `model_call`    | `ModelCall`        | before a request leaves for the model      |
| `retrying`      | `Retrying`         | a model call failed and is tried again     |
| `delta`         | `Delta`            | a piece of text or reasoning arrived       |
| `tool_call`     | `ToolCallStarted`  | before a tool runs                         |
| `tool_progress` | `ToolProgressed`   | a running tool tells how far it is         |
| `tool_result`   | `ToolResultLanded` | a call's result is kept, cut short or not  |
| `task`          | `TaskTold`         | something happens in a sub-agent's turn    |
| `compacting`    | `Compacting`       | the model is about to be shown less        |
| `compacted`     | `Compacted`        | that has ended, in whichever way           |
| `done`          | `TurnDone`         | the turn is over, whatever its end         |
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.compaction.told import Compacted as Compacted
from treadle.compaction.told import Compacting as Compacting
from treadle.stack.events import Events
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.records import StopReason

EVENT_NAMES = (
    "turn",
    "step",
    "model_call",
    "retrying",
    "delta",
    "tool_call",
    "tool_progress",
    "tool_result",
    "task",
    "compacting",
    "compacted",
    "done",
)


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn's own input, as messages."""

    input: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A pass of the loop, counted from 1."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model call failed before it said anything, and is made again after a wait.

    `attempt` counts what was tried in vain, from 1; `reason` is the error's.
    """

    attempt: int
    reason: str
    retry_in_seconds: float


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A tool is about to run; `capability` is what it needs to be allowed."""

    call: ToolCall
    capability: str


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """How far a running call is; `done` and `total` are of whatever it counts, where it does."""

    call: ToolCall
    message: str
    done: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class ToolResultLanded:
    """A tool's result, as the model will read it; a call that was cut short has no duration."""

    call: ToolCall
    message: Message
    truncated: bool
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class TaskTold:
    """An event of a sub-agent's turn: the task's number, the event's name and its payload."""

    number: int
    name: str
    payload: object


@dataclass(frozen=True, slots=True)
class TurnDone:
    """How the turn ended; `error` is what `start` is about to raise, if anything."""

    stop_reason: StopReason
    text: str
    usage: Usage
    steps: int
    error: BaseException | None = None


def turn_events() -> Events:
    """Make the events of one agent, without subscribers."""
    return Events(EVENT_NAMES)
