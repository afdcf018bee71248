"""How long the ends of turns wait for the device, for 1, 8 and 64 sessions that end together.

Run it by hand: `python tests/benchmarks/flushes.py [folder]`, with a folder on the device in
question. It prints medians and fails nothing. Beside our figure stand the floor, one flush after
the other with nothing around it, and what the event loop waited at most meanwhile.
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

from treadle.thread import files
from treadle.thread.message import Message, Usage
from treadle.thread.thread import Thread

# As many as keep the median still from run to run, within seconds.
ROUNDS = 20

# Short beside what a blocked event loop would be noticed by.
REST_SECONDS = 0.001

# What a turn of a few steps leaves to be flushed.
LINE = Message("assistant", "word " * 200)


class Counted:
    """Counts flushes of the device."""

    def __init__(self) -> None:
        self.count = 0
        self._sync = files.sync
        files.sync = self._counted

    def _counted(self, descriptor: int) -> None:
        self.count += 1
        self._sync(descriptor)


async def _longest_pause_ms(stop: asyncio.Event) -> float:
    """Return how long the event loop was away at most."""
    longest, last = 0.0, time.perf_counter()
    while not stop.is_set():
        # A loop that never rests would take the interpreter from the threads that flush.
        await asyncio.sleep(REST_SECONDS)
        now = time.perf_counter()
        longest, last = max(longest, now - last - REST_SECONDS), now
    return longest * 1000


async def _end_together(threads: list[Thread]) -> tuple[float, float, float]:
    """End a turn of each thread at once; return the median and the longest wait, and the pause."""
    for thread in threads:
        thread.start_turn()
        await thread.append(LINE)
    stop = asyncio.Event()
    watching = asyncio.create_task(_longest_pause_ms(stop))
    waits: list[float] = []

    async def end(thread: Thread) -> None:
        start = time.perf_counter()
        await thread.end_turn("end_turn", Usage(), 1)
        waits.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*map(end, threads))
    stop.set()
    return statistics.median(waits), max(waits), await watching


def _floor_ms(folder: Path, count: int) -> float:
    """Return what flushing as many files one after the other takes."""
    paths = [folder / f"floor{number}" for number in range(count)]
    descriptors = [os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND) for path in paths]
    taken = []
    for _ in range(ROUNDS):
        for descriptor in descriptors:
            os.write(descriptor, b"x" * 1200)
        start = time.perf_counter()
        for descriptor in descriptors:
            os.fdatasync(descriptor)
        taken.append((time.perf_counter() - start) * 1000)
    for descriptor in descriptors:
        os.close(descriptor)
    return statistics.median(taken)


async def _measure(folder: Path, count: int, device: Counted) -> None:
    threads = [Thread.open(folder / f"{count}-{number}.jsonl") for number in range(count)]
    await _end_together(threads)
    before, rounds = device.count, [await _end_together(threads) for _ in range(ROUNDS)]
    flushes = (device.count - before) / ROUNDS
    middle, longest, pause = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"{count:3} sessions: median wait {middle:6.2f} ms, longest {longest:6.2f} ms, "
        f"{flushes:5.1f} flushes; one by one {_floor_ms(folder, count):6.2f} ms; "
        f"the loop was away {pause:5.2f} ms"
    )
    for thread in threads:
        thread.close()


def main() -> None:
    """Measure in a folder that is gone afterwards."""
    device = Counted()
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
        for count in (1, 8, 64):
            asyncio.run(_measure(Path(folder), count, device))


if __name__ == "__main__":
    main()
