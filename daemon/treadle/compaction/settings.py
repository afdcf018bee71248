"""How an agent's conversations are compacted, as its file or a script says it.

Owns the figures, their defaults and what cannot be. Refuses to know where they are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from treadle.compaction.conversation import KEEP_STEPS
from treadle.errors import ConfigurationError

StrategyName: TypeAlias = Literal["tool_results", "summarize", "sliding_window"]

# `faithful` asks for a summary before anything that was said is dropped; `cheapest`, which the
# seeds describe, spends a model call only when all else is not enough.
LADDERS: dict[str, tuple[StrategyName, ...]] = {
    "faithful": ("tool_results", "summarize", "sliding_window"),
    "cheapest": ("tool_results", "sliding_window", "summarize"),
}
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)

# Where a conversation is compacted, and how far, as parts of the window: room for an answer above,
# and for a good while of talking below.
COMPACT_AT = 0.7
COMPACT_TO = 0.4


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """How conversations are compacted.

    Args:
        window: the model's window in tokens; None for what is known of the model.
        compact_at: the part of the window from which on it is done.
        compact_to: the part of the window that it aims at.
        keep_steps: how many of the newest answers of the model stay as they are, each with the
            results of the tools that it called. A step is one such answer, not a turn: a prompt
            with three rounds of tools has four. What a person says is no step; the newest of
            that stays in any case, and so does a result that the model has not seen yet.
        ladder: the strategies, in order.
        summary_model: another model, at the same endpoint, that writes the summaries.

    Raises:
        ConfigurationError: they contradict each other.
    """

    window: int | None = None
    compact_at: float = COMPACT_AT
    compact_to: float = COMPACT_TO
    keep_steps: int = KEEP_STEPS
    ladder: tuple[StrategyName, ...] = LADDERS["faithful"]
    summary_model: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.compact_to < self.compact_at <= 1:
            raise ConfigurationError(
                "compaction needs 0 < compact_to < compact_at <= 1, not "
                f"compact_to {self.compact_to:g} and compact_at {self.compact_at:g}"
            )
        if self.keep_steps < 0 or (self.window is not None and self.window < 1):
            raise ConfigurationError("keep_steps must be at least 0, and window at least 1")
        if not self.ladder or len(set(self.ladder)) != len(self.ladder):
            raise ConfigurationError("a ladder has at least one strategy, and none twice")

    def triggers_at(self, window: int) -> int:
        """Return from how many tokens on a conversation is compacted."""
        return int(window * self.compact_at)

    def target(self, window: int, overhead: int) -> int:
        """Return how many tokens the conversation is to have.

        Args:
            window: the model's, in tokens.
            overhead: what is sent beside it: the schemas of tools.
        """
        return max(int(window * self.compact_to) - overhead, 1)
