"""Which processes live, as the kernel tells it under `/proc`: the one place that reads it.

Owns the reading, and that many who look at the same time share one look, for a look costs
milliseconds. Where the kernel does not list processes as files nobody is seen. Refuses to know
whose processes they are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What each process of ours and its descendants are recognised by; it holds the marks of those
# around it as well, for a daemon may run inside another daemon's command. Named when only
# commands had one.
MARK_VARIABLE = "TREADLE_JOB"

# Where the kernel lists processes as files; a container may do without.
HAS_PROC = sys.platform == "linux" and Path("/proc/self/stat").exists()

# All of it is a line of some fifty numbers and a short name.
_STAT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Process:
    """A process; `began`, in ticks since the system did, with its pid names it for good."""

    pid: int
    group: int
    began: int


class Census:
    """The living processes of one moment, but for this one; their marks are read when needed."""

    def __init__(self) -> None:
        self.by_pid = {process.pid: process for process in _processes()}
        self._marks: dict[int, frozenset[str]] = {}

    def marks(self, process: Process) -> frozenset[str]:
        """Return the marks that a process of this person carries; nobody else's are looked at."""
        if process.pid not in self._marks:
            self._marks[process.pid] = frozenset(_marks(process.pid))
        return self._marks[process.pid]


class _Registrar:
    """Takes one census for all who ask while it is taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0.0
        self._last: Census | None = None

    def census(self) -> Census:
        asked = time.monotonic()
        with self._lock:
            # What was begun before somebody asked may be out of date for him.
            if self._last is None or self._began < asked:
                self._began = time.monotonic()
                self._last = Census()
            return self._last


_REGISTRAR = _Registrar()


def take_census() -> Census:
    """See who lives now, not a moment earlier; blocks for some milliseconds."""
    return _REGISTRAR.census()


def look_at(pid: int) -> Process | None:
    """Read what the kernel says of a process; None where it has ended and nobody reaped it.

    Raises:
        OSError: it is gone.
    """
    # Its name stands in brackets and may hold anything: proc(5), /proc/pid/stat.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split(maxsplit=20)
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[2]), int(fields[19]))


def send(process: Process, number: signal.Signals) -> None:
    """Signal a process, and no other that got its pid meanwhile."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(process.pid)
        try:
            now = look_at(process.pid)
            # It may have moved to a group of its own since it was seen.
            if now is not None and now.began == process.began:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _processes() -> Iterator[Process]:
    if not HAS_PROC:
        return
    ours = os.getpid()
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        with contextlib.suppress(OSError):
            if pid != ours and (found := look_at(pid)):
                yield found


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _STAT_BYTES)
    finally:
        os.close(descriptor)


def _marks(pid: int) -> list[str]:
    wanted = f"{MARK_VARIABLE}=".encode()
    try:
        path = Path(f"/proc/{pid}/environ")
        if path.stat().st_uid != os.getuid():
            return []
        environment = path.read_bytes()
    except OSError:
        return []
    for variable in environment.split(b"\0"):
        if variable.startswith(wanted):
            return variable[len(wanted) :].decode(errors="replace").split(",")
    return []
