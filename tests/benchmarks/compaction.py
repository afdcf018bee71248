"""What compaction costs and keeps, over a conversation far longer than its model's window.

Run it by hand: `python tests/benchmarks/compaction.py [turns]`; 0 for the second table alone. It
fails nothing. The model is scripted, so that counts are the same on each machine; tokens are those
that its endpoint counts. `known` is how many of the things that were said once, early, are answered
at the end. Where the endpoint counts more than the stated approximation, `x1.6`, it may refuse what
was taken for small enough: `refused` says how often.

A second table tells what asking whether a compaction is due costs before each model call: where
all is measured afresh, as with a new `Compactor`, and where what was measured is kept and one step
of two messages came since. In one run, so that their ratio is free of the machine's moods.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

# The kit lies beside this folder, and nobody but pytest knows that.
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.compacting import slide
from support.long_talk import NEEDLES, WINDOW, Held, Provider, held
from treadle.compaction.compactor import Compactor
from treadle.folders import CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.thread.message import Message
from treadle.thread.thread import Thread

TURNS = 300

# Ladder, tokens counted for one of the approximation, and whether the endpoint reports its counts.
CASES = [
    ("faithful", 1.0, True),
    ("faithful", 1.0, False),
    ("faithful", 1.6, True),
    ("faithful", 1.6, False),
    ("cheapest", 1.0, True),
]

# How many messages a view has whose size is asked for.
VIEWS = (500, 5_000, 50_000)

# So often it is asked for; the median counts.
ASKED = 15

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


async def _asking(messages: int) -> list[str]:
    """Ask in turns, afresh and with what is kept."""
    thread = Thread.in_memory()
    for number in range(messages // 2):
        await _step(thread, number)
    kept = _compactor()
    kept.is_due(thread, 0)
    afresh_seconds, kept_seconds = list[float](), list[float]()
    for number in range(ASKED):
        await _step(thread, number)
        afresh_seconds.append(_taken(_compactor(), thread))
        kept_seconds.append(_taken(kept, thread))
    before, after = statistics.median(afresh_seconds), statistics.median(kept_seconds)
    ratio = f"{before / after:,.0f}"
    return [f"{messages:,}", f"{before * 1e3:.2f}", f"{after * 1e3:.4f}", ratio]


async def _step(thread: Thread, number: int) -> None:
    await thread.append(Message("user", f"{number} {'q' * 200}"))
    await thread.append(Message("assistant", f"{number} {'a' * 200}"))


def _compactor() -> Compactor:
    return Compactor(window=1 << 30, ladder=slide())


def _taken(compactor: Compactor, thread: Thread) -> float:
    start = time.perf_counter()
    compactor.is_due(thread, 0)
    return time.perf_counter() - start


def _print(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def main() -> None:
    """Print two tables."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    if turns:
        print(f"{turns} turns in a window of {WINDOW:,} tokens")
        _print([list(_COLUMNS), *(_row(*case, turns) for case in CASES)])
    print("Asking whether a compaction is due, in milliseconds")
    columns = ["messages", "afresh", "kept", "ratio"]
    _print([columns, *(asyncio.run(_asking(messages)) for messages in VIEWS)])


if __name__ == "__main__":
    main()
