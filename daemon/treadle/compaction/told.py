"""What is told of a compaction: when it begins, and what it came to.

Refuses to know who is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle.compaction.ladder import Attempt
from treadle.thread.history import Placed
from treadle.thread.message import Usage

Trigger: TypeAlias = Literal["threshold", "overflow", "manual"]
CompactionOutcome: TypeAlias = Literal["completed", "declined", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Compacting:
    """A compaction has begun: the payload of the event `compacting`.

    Args:
        id: its name, which its end carries too.
        trigger: why.
        tokens: how large the conversation is, with its instructions and tools.
    """

    id: str
    trigger: Trigger
    tokens: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction has ended: the payload of the event `compacted`; exactly one for each begun.

    Args:
        id: its name.
        outcome: `completed` counts from now on; after any other the conversation is as it was.
        strategies: what each strategy that was asked came to.
        tokens_before: how large the conversation was.
        tokens_after: how large it is.
        messages_before: how many messages the model saw.
        messages_after: how many it sees.
        summary: what stands for what was before; empty where nothing does.
        gave_up: the messages that the model sees no more, as they are in the thread.
        error: why it failed.
        usage: what its model calls cost, whatever it came to.
    """

    id: str
    outcome: CompactionOutcome
    strategies: tuple[Attempt, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    messages_before: int = 0
    messages_after: int = 0
    summary: str = ""
    gave_up: tuple[Placed, ...] = ()
    error: str = ""
    usage: Usage = field(default_factory=Usage)
