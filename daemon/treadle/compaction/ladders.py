"""Ladders made of strategies' names: the one place that knows which name is which layer."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.compaction.ladder import CompactionEnv, rest
from treadle.compaction.oversize import Oversize, Spill
from treadle.compaction.settings import StrategyName
from treadle.compaction.sliding_window import SlidingWindow
from treadle.compaction.summariser import Summariser
from treadle.compaction.summarize import Summarize
from treadle.compaction.tool_results import ToolResults
from treadle.stack.stack import App, Stack


def build_ladder(
    names: Sequence[StrategyName],
    summariser: Summariser | None = None,
    spill: Spill | None = None,
) -> App[CompactionEnv]:
    """Build a ladder.

    Without a summariser `summarize` is left out. A ladder that ends in it, with nothing above that
    gives up turns, goes on with `sliding_window`: a model that fails must not end a session. Every
    ladder ends with what cuts messages that are too large by themselves.

    Args:
        names: the strategies, in order.
        summariser: writes summaries.
        spill: says where a model reads the whole of a message that is too large by itself.
    """
    stack: Stack[CompactionEnv] = Stack()
    for name in ending_locally(names):
        if name == "tool_results":
            stack.use(ToolResults)
        elif name == "sliding_window":
            stack.use(SlidingWindow)
        elif summariser is not None:
            stack.use(Summarize, summariser=summariser)
    return stack.use(Oversize, spill=spill).run(rest).build()


def ending_locally(names: Sequence[StrategyName]) -> tuple[StrategyName, ...]:
    """Return the names of a ladder that has a step behind or above a summary without a model."""
    if "summarize" in names[-1:] and "sliding_window" not in names:
        return (*names, "sliding_window")
    return tuple(names)
