"""How long threads take to open, and how much memory: run by hand, for it depends on the machine.

Run it with `python tests/benchmarks/threads.py` from the project's root.
A child process for each number opens a thread as a session does and reports the time of the
opening and how its resident memory grew; each is measured several times and the median told.
The files are in the system's cache: what is measured is our work, not the disk's.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from treadle.thread.message import Message, ToolCall, Usage, encode_line
from treadle.thread.records import (
    CompactedRecord,
    ThreadRecord,
    TurnRecord,
    encode_record,
)
from treadle.thread.thread import Thread

MESSAGES = 100_000
# What a compaction of it keeps, near its end.
KEPT = 2_000
ROUNDS = 7

CHILD = """
import resource, sys, time
from pathlib import Path
import treadle.thread.fork, treadle.thread.lock
from treadle.thread.thread import Thread

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

before, start = resident(), time.perf_counter()
thread = Thread.open(Path(sys.argv[1]))
opened = time.perf_counter()
view = thread.view()
viewed = time.perf_counter()
print((opened - start) * 1000, (viewed - opened) * 1000, (resident() - before) / 2**20, len(view))
thread.close()
"""


def _lines(first: int, count: int) -> list[bytes]:
    """Turns of four messages: a question, a call, its result, an answer."""
    lines: list[bytes] = []
    for ordinal in range(first, first + count, 4):
        turn = ordinal // 4 + 1
        call = ToolCall(f"call_{ordinal}", "read", {"path": f"src/file_{ordinal}.py"})
        lines.append(encode_record(TurnRecord(turn, "start", AT, messages=ordinal)))
        lines += map(
            encode_line,
            [
                Message("user", f"What does file {ordinal} do? " * 4, at=AT, turn=turn),
                Message("assistant", "", [call], at=AT, turn=turn, model="m", usage=Usage(900, 40)),
                Message("tool", "def f(): ...\\n" * 40, tool_call_id=call.id, at=AT, turn=turn),
                Message("assistant", "It defines f. " * 20, at=AT, turn=turn, model="m"),
            ],
        )
        lines.append(encode_record(TurnRecord(turn, "end", AT, "end_turn", Usage(1800, 80), 2)))
    return lines


AT = "2026-01-01T00:00:00.000Z"


def _write(path: Path, lines: list[bytes]) -> None:
    header = encode_record(ThreadRecord(1, "bench", path.stem, AT))
    path.write_bytes(b"".join(line + b"\n" for line in [header, *lines]))


def _measure(name: str, path: Path) -> float:
    runs = [[float(word) for word in _run(path).split()] for _ in range(ROUNDS)]
    columns: list[list[float]] = [list(column) for column in zip(*runs, strict=True)]
    opened, viewed, memory, count = map(statistics.median, columns)
    size = path.stat().st_size / 2**20
    print(
        f"{name:<34}{size:7.1f} MiB  open {opened:8.1f} ms  view {viewed:7.1f} ms"
        f"  memory {memory:7.1f} MiB  ({count:.0f} messages in the view)"
    )
    return opened


def _run(path: Path) -> str:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, path], check=True, capture_output=True, text=True
    )
    return child.stdout


def main() -> None:
    """Measure with files that are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        whole, compacted, survived = (
            Path(folder, name + ".jsonl") for name in ("whole", "compacted", "survived")
        )
        _write(whole, _lines(0, MESSAGES))
        _write(compacted, _lines(0, MESSAGES))
        _write(survived, _lines(0, KEPT))
        thread = Thread.open(compacted)
        keep = [(MESSAGES - KEPT, MESSAGES - 1)]
        record = CompactedRecord(
            id="c", through=MESSAGES - 1, keep=keep, summary="They spoke. " * 200
        )
        asyncio.run(thread.record_compaction(record))
        thread.close()
        _measure("100,000 messages", whole)
        long = _measure("the same with a compaction record", compacted)
        short = _measure("only what survived", survived)
        print(f"with a compaction record: {long / short:.2f} times a thread of what survived")


if __name__ == "__main__":
    main()
