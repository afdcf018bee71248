"""How long a client of the shared daemon waits for `initialize`, beside what an empty Python costs.

Run it by hand: `python tests/benchmarks/connect.py [runs]`. It prints medians in milliseconds, and
as ratios to `python -c pass` of the same run; times differ from machine to machine, ratios hardly
do. The subjects are taken in turn, so that a busy moment meets them alike, and Python may use its
cached bytecode, as it does once installed. The daemon is one of the benchmark's own.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

# As many as keep the medians still from run to run, within half a minute.
RUNS = 25

# A daemon that was asked to stop is gone by then.
END_SECONDS = 30.0

BODY = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
FRAME = b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)

CONNECT = [sys.executable, "-m", "treadle", "connect"]
SERVE = [sys.executable, "-m", "treadle", "serve"]


def seconds_to_reply(command: list[str], environ: Mapping[str, str]) -> float:
    """Start a command, say hello, and return the time from the start to the reply's first bytes."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(FRAME)
        process.stdin.flush()
        reply = process.stdout.readline()
        elapsed = time.perf_counter() - started
        assert reply.startswith(b"Content-Length: ")
        process.stdin.close()
        process.stdout.read()
    return elapsed


def seconds_of(code: str, environ: Mapping[str, str]) -> float:
    """Run a line of Python in a process of its own and return how long that takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)
    return time.perf_counter() - started


def main(runs: int) -> None:
    """Measure in turn, and print medians."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            **os.environ,
            "TREADLE_DATA_DIR": str(Path(folder) / "data"),
            "TREADLE_CONFIG_DIR": str(Path(folder) / "config"),
            "TREADLE_CACHE_DIR": str(Path(folder) / "cache"),
            "TREADLE_LOG_DIR": str(Path(folder) / "logs"),
            "TREADLE_RUNTIME_DIR": str(Path(folder) / "run"),
            "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        subjects: dict[str, Callable[[], float]] = {
            "an empty Python": lambda: seconds_of("pass", environ),
            "connect: start to initialize reply": lambda: seconds_to_reply(CONNECT, environ),
            "serve: start to initialize reply": lambda: seconds_to_reply(SERVE, environ),
            "import treadle.cli.connect": lambda: seconds_of("import treadle.cli.connect", environ),
        }
        try:
            for measure in subjects.values():
                measure()  # bytecode is written and the daemon started now, and the disk is warm
            times: dict[str, list[float]] = {name: [] for name in subjects}
            for _ in range(runs):
                for name, measure in subjects.items():
                    times[name].append(measure())
        finally:
            stop = [sys.executable, "-m", "treadle", "daemon", "stop"]
            subprocess.run(stop, env=environ, timeout=END_SECONDS, capture_output=True)
    empty = times["an empty Python"]
    for name, taken in times.items():
        ratio = statistics.median(one / other for one, other in zip(taken, empty, strict=True))
        print(f"{name:36} {statistics.median(taken) * 1000:7.1f} ms {ratio:6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
