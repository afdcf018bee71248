"""What compaction costs and keeps, over a conversation far longer than its model's window.

Run it by hand: `python tests/benchmarks/compaction.py [turns]`. It prints one table and fails
nothing. The model is scripted, so that counts are the same on each machine; tokens are those that
its endpoint counts. `known` is how many of the things that were said once, early, are answered at
the end. Where the endpoint counts more than the stated approximation, `x1.6`, it may refuse what
was taken for small enough: `refused` says how often.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

# The kit lies beside this folder, and nobody but pytest knows that.
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.long_talk import NEEDLES, WINDOW, Held, Provider, held
from treadle.folders import CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE

TURNS = 300

# Ladder, tokens counted for one of the approximation, and whether the endpoint reports its counts.
CASES = [
    ("faithful", 1.0, True),
    ("faithful", 1.0, False),
    ("faithful", 1.6, True),
    ("faithful", 1.6, False),
    ("cheapest", 1.0, True),
]

_COLUMNS = (
    "ladder",
    "counts",
    "calls",
    "tokens",
    "compactions",
    "summaries",
    "their tokens",
    "share",
    "largest",
    "refused",
    "known",
    "file KB",
    "records KB",
    "seconds",
)


def _row(ladder: str, heavier: float, tells_usage: bool, turns: int) -> list[str]:
    """Hold one conversation in folders that are gone afterwards."""
    provider = Provider(heavier, tells_usage)
    with tempfile.TemporaryDirectory() as folder:
        for variable in (CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE):
            os.environ[variable] = f"{folder}/{variable}"
        start = time.perf_counter()
        talk = asyncio.run(held(Path(folder, "notes"), turns, provider, ladder))
        taken = time.perf_counter() - start
    return [
        ladder,
        f"x{heavier:g}{'' if tells_usage else ' untold'}",
        *_said(provider, talk, taken),
    ]


def _said(provider: Provider, talk: Held, seconds: float) -> list[str]:
    figures = provider.figures
    known = sum(figures.answers.get(topic) == value for topic, value in NEEDLES.items())
    return [
        f"{figures.turn_calls:,}",
        f"{figures.turn_tokens:,}",
        f"{len(figures.ends)}",
        f"{figures.summaries}",
        f"{figures.summary_tokens:,}",
        f"{figures.summary_share:.1%}",
        f"{figures.largest:,}",
        f"{provider.overflows}",
        f"{known} of {len(NEEDLES)}",
        f"{figures.sizes[-1] / 1000:,.0f}",
        f"{sum(talk.record_bytes) / 1000:,.0f}",
        f"{seconds:.1f}",
    ]


def main() -> None:
    """Print one table."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    rows = [list(_COLUMNS), *(_row(*case, turns) for case in CASES)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"{turns} turns in a window of {WINDOW:,} tokens")
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main()
