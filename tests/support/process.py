"""What the system knows of a process; Linux tells it under `/proc`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.waiting import PATIENCE_SECONDS, until_seen

posix_only = pytest.mark.skipif(
    os.name == "nt", reason="Windows has no such modes, terminals, devices or shells"
)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident_bytes(pid: int) -> int:
    """Return how much of the machine's memory a process occupies."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_resident_bytes(pid: int) -> int:
    """Return the most that a process has ever occupied of the machine's memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    (peak,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peak.split()[1]) << 10


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that still live."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may have ended since it was listed.
        with suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, path.read_text().split())
    return children


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def patience_with(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that outlives a bound, so that whoever reads its output reads an end."""
    bound = threading.Timer(PATIENCE_SECONDS, process.kill)
    bound.start()
    try:
        yield
    finally:
        bound.cancel()


async def until_dead(pid: int) -> None:
    """Wait, within a bound, until a process that is not our child has ended."""
    await until_seen(lambda: not is_alive(pid))
