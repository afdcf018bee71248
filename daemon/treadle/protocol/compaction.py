"""Compaction on the wire: the method that asks for one, and what is told of each."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from treadle.protocol.base import Address, ProgressToken, WireStruct, WireUsage
from treadle.protocol.notifications import SessionNotification

CompactionOutcome: TypeAlias = Literal["completed", "declined", "failed", "cancelled"]

# A page of text: what is to be kept of a conversation, not another conversation.
MOST_INSTRUCTIONS = 10_000


class CompactParams(Address):
    """Make the conversation shorter for the model, when its turn comes; nothing is deleted.

    `instructions` say what to keep. A pair that is not open is resumed first. Under the
    `work_done_token` it is also told as `$/progress`.
    """

    instructions: Annotated[str, msgspec.Meta(max_length=MOST_INSTRUCTIONS)] = ""
    work_done_token: ProgressToken | None = None


class BeforeAndAfter(WireStruct):
    """How much there was, and how much there is."""

    before: int
    after: int


class StrategyResult(BeforeAndAfter):
    """What a strategy came to, in tokens; `problem` says why it could not do its work."""

    name: str
    problem: str = ""


class CompactResult(WireStruct):
    """What a compaction came to; after any other outcome than `completed` all is as it was.

    One that was stopped before it began has no `id`, and nothing was told of it.
    """

    id: str = ""
    outcome: CompactionOutcome
    strategies: list[StrategyResult]
    tokens: BeforeAndAfter
    error: str = ""


class CompactingNotification(SessionNotification):
    """A compaction begins; exactly one `session/compacted` of the same `id` follows."""

    id: str
    trigger: Literal["threshold", "overflow", "manual"]
    tokens: int


class CompactedNotification(SessionNotification):
    """A compaction has ended.

    `gave_up` are the ordinals of the messages that the model sees no more, or not as they were;
    they stay in the thread. `summary` is what it sees in their place, `usage` what that cost.
    """

    id: str
    outcome: CompactionOutcome
    strategies: list[StrategyResult]
    tokens: BeforeAndAfter
    messages: BeforeAndAfter
    summary: str = ""
    usage: WireUsage | None = None
    gave_up: list[int]
    error: str = ""
