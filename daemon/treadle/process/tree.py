"""A command and everything it started, as one tree: who of it lives, and ending all of it.

Owns how a descendant is recognised. Most are in the command's process group. On Linux also those
that left it (`setsid`, a daemon that forked twice) are found, by a mark in the environment that
each inherits; elsewhere what has left the group is out of reach. Refuses to know pipes and time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from treadle.process.group import group_is_alive, kill_group, terminate_group

# What a command and its descendants are recognised by; it holds the marks of commands around it
# as well, for a daemon may run inside another daemon's command.
MARK_VARIABLE = "TREADLE_JOB"

# Where the kernel lists processes as files; a container may do without.
_HAS_PROC = sys.platform == "linux" and Path("/proc/self/stat").exists()

# A tree that forks while it is killed is looked at again; one that outruns this is a fork bomb.
_MOST_ROUNDS = 20

# More daemons inside each other's commands than this is an accident.
_MOST_MARKS_CHARACTERS = 400


def new_mark() -> str:
    """Return the variable's value for a new command: a mark of its own behind those around it."""
    around = os.environ.get(MARK_VARIABLE, "")[:_MOST_MARKS_CHARACTERS]
    return f"{around},{uuid4().hex}" if around else uuid4().hex


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes of one command; every method blocks for some milliseconds.

    Args:
        pid: the leader of its group.
        mark: what `new_mark` made for its environment.
        began: when the leader did, as `_Process` says it; nothing of the tree is older.
    """

    pid: int
    mark: str
    began: int = 0

    @classmethod
    def of(cls, pid: int, mark: str) -> Self:
        """Make the tree of a leader that has just begun."""
        with contextlib.suppress(OSError):
            if _HAS_PROC and (leader := _look_at(pid)):
                return cls(pid, mark, leader.began)
        return cls(pid, mark)

    def is_alive(self) -> bool:
        """Tell whether any of it runs; the dead that nobody reaped do not count on Linux."""
        if _HAS_PROC:
            return any(True for _ in self._living())
        return group_is_alive(self.pid)

    def terminate(self) -> None:
        """Ask all of it to end."""
        terminate_group(self.pid)
        self._signal_strays(signal.SIGTERM)

    def kill(self) -> None:
        """End all of it by force."""
        kill_group(self.pid)
        for _ in range(_MOST_ROUNDS):
            if not self._signal_strays(signal.SIGKILL):
                return

    def _signal_strays(self, number: signal.Signals) -> int:
        """Signal those that a signal to the group does not reach; return how many were found."""
        strays = [each for each in self._living() if each.group != self.pid]
        for process in strays:
            _signal(process, number)
        return len(strays)

    def _living(self) -> Iterator[_Process]:
        own_mark = self.mark.rpartition(",")[2]
        for process in _processes():
            if process.group == self.pid or (
                process.began >= self.began and own_mark in _marks(process.pid)
            ):
                yield process


@dataclass(frozen=True, slots=True)
class _Process:
    """A process; `began`, in ticks since the system did, with its pid names it for good."""

    pid: int
    group: int
    began: int


def _processes() -> Iterator[_Process]:
    """Find the living processes, but for this one; none where the kernel does not list them."""
    if not _HAS_PROC:
        return
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                if found := _look_at(int(path.name)):
                    yield found


def _look_at(pid: int) -> _Process | None:
    """Read what the kernel says of a process; None where it has ended and nobody reaped it.

    Raises:
        OSError: it is gone.
    """
    # Its name stands in brackets and may hold anything: proc(5), /proc/pid/stat.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return _Process(pid, int(fields[2]), int(fields[19]))


def _marks(pid: int) -> list[str]:
    """Return the marks that a process of this person carries; nobody else's are looked at."""
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


def _signal(process: _Process, number: signal.Signals) -> None:
    """Signal a process, and no other that got its pid meanwhile."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if _look_at(process.pid) == process:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
