"""Compactions, from inside types to wire types: a part of the bridge."""

from __future__ import annotations

from typing import Any

from treadle.compaction.told import Compacted, Compacting
from treadle.protocol.base import WireStruct, WireUsage
from treadle.protocol.compaction import (
    BeforeAndAfter,
    CompactedNotification,
    CompactingNotification,
    CompactResult,
    StrategyResult,
)
from treadle.secrets import known
from treadle.thread.message import Usage


def compact_result(compacted: Compacted) -> CompactResult:
    """Answer whoever asked for a compaction."""
    return CompactResult(
        id=compacted.id,
        outcome=compacted.outcome,
        strategies=_strategies(compacted),
        tokens=_tokens(compacted),
        error=known().redact(compacted.error),
    )


def compaction_words(result: CompactResult) -> str:
    """Say what a compaction came to."""
    if result.outcome != "completed":
        return f"not compacted: {result.error or result.outcome}"
    return f"compacted: {result.tokens.before:,} to {result.tokens.after:,} tokens"


def of_compaction(
    address: dict[str, Any], payload: Compacting | Compacted
) -> tuple[str, WireStruct]:
    """Return the notification of a compaction's beginning or end.

    Args:
        address: whose it is, and which event of theirs.
        payload: what happened.
    """
    if isinstance(payload, Compacting):
        return "session/compacting", CompactingNotification(
            **address, id=payload.id, trigger=payload.trigger, tokens=payload.tokens
        )
    return "session/compacted", CompactedNotification(
        **address,
        id=payload.id,
        outcome=payload.outcome,
        strategies=_strategies(payload),
        tokens=_tokens(payload),
        messages=BeforeAndAfter(before=payload.messages_before, after=payload.messages_after),
        summary=payload.summary,
        usage=_usage(payload),
        gave_up=[placed.ordinal for placed in payload.gave_up if placed.ordinal is not None],
        error=known().redact(payload.error),
    )


def _strategies(compacted: Compacted) -> list[StrategyResult]:
    return [
        StrategyResult(
            name=one.name,
            before=one.before,
            after=one.after,
            problem=known().redact(one.problem),
        )
        for one in compacted.strategies
    ]


def _usage(compacted: Compacted) -> WireUsage | None:
    usage = compacted.usage
    if usage == Usage():
        return None
    return WireUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _tokens(compacted: Compacted) -> BeforeAndAfter:
    return BeforeAndAfter(before=compacted.tokens_before, after=compacted.tokens_after)
