"""How long an editor waits for `initialize`, beside what importing pygls alone would cost.

Run it by hand: `python tests/benchmarks/startup.py [runs]`. It prints medians in milliseconds and
the ratio of the first two; times differ from machine to machine, ratios hardly do. The three are
taken in turn, so that a busy moment meets them alike, and Python may use its cached bytecode, as it
does once installed.
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
RUNS = 15

BODY = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
FRAME = b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def seconds_to_reply(environ: Mapping[str, str]) -> float:
    """Start a daemon, say hello, and return the time from the start to the reply's first bytes."""
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "treadle", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
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
            "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        subjects: dict[str, Callable[[], float]] = {
            "treadle: start to initialize reply": lambda: seconds_to_reply(environ),
            "import pygls.lsp.server": lambda: seconds_of("import pygls.lsp.server", environ),
            "an empty Python": lambda: seconds_of("pass", environ),
        }
        for measure in subjects.values():
            measure()  # bytecode is written now, and the disk is warm
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(runs):
            for name, measure in subjects.items():
                times[name].append(measure())
    for name, taken in times.items():
        print(f"{name:36} {statistics.median(taken) * 1000:7.1f} ms")
    ours, pygls, _ = times.values()
    ratio = statistics.median(one / other for one, other in zip(ours, pygls, strict=True))
    print(f"{'ratio of the first to the second':36} {ratio:7.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
