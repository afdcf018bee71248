"""A process and everything it started, as one tree: who of it lives, and ending all of it.

Owns how a descendant is recognised. Most are in the process's group. On Linux also those that
left it (`setsid`, a daemon that forked twice) are found, by a mark in the environment that each
inherits; elsewhere what has left the group is out of reach. Refuses to know pipes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self, TypeVar
from uuid import uuid4

from treadle.process.census import (
    HAS_PROC,
    MARK_VARIABLE,
    Census,
    Process,
    look_at,
    send,
    take_census,
)
from treadle.process.group import group_is_alive, kill_group, terminate_group

# A tree that forks while it is killed is looked at again; one that outruns this is a fork bomb.
_MOST_ROUNDS = 20

# More daemons inside each other's commands than this is an accident.
_MOST_MARKS_CHARACTERS = 400

# How often those that were asked to end are looked at: nothing tells of strangers' children.
_POLL_SECONDS = 0.02

FoundT = TypeVar("FoundT")


def new_mark() -> str:
    """Return the variable's value for a new process: a mark of its own behind those around it."""
    around = os.environ.get(MARK_VARIABLE, "")[:_MOST_MARKS_CHARACTERS]
    return f"{around},{uuid4().hex}" if around else uuid4().hex


def own_mark(mark: str) -> str:
    """Return the last mark of such a value: the one that is a process's own."""
    return mark.rpartition(",")[2]


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes of one start; every method blocks for some milliseconds.

    Args:
        pid: the leader of its group; 0 where only the mark is known, because it is about to begin.
        mark: what `new_mark` made for its environment.
        began: when the leader did, as `Process` says it; nothing of the tree is older.
    """

    pid: int
    mark: str
    began: int = 0

    @classmethod
    def of(cls, pid: int, mark: str) -> Self:
        """Make the tree of a leader that has just begun."""
        with contextlib.suppress(OSError):
            if HAS_PROC and (leader := look_at(pid)):
                return cls(pid, mark, leader.began)
        return cls(pid, mark)

    def is_alive(self) -> bool:
        """Tell whether any of it runs; the dead that nobody reaped do not count on Linux."""
        if HAS_PROC:
            return bool(self._living())
        return self.pid != 0 and group_is_alive(self.pid)

    def terminate(self) -> None:
        """Ask all of it to end."""
        if self.pid:
            terminate_group(self.pid)
        self._signal_strays(signal.SIGTERM)

    def kill(self) -> None:
        """End all of it by force."""
        if self.pid:
            kill_group(self.pid)
        if not HAS_PROC:
            return  # nobody else is seen, and Windows has no such signal
        for _ in range(_MOST_ROUNDS):
            if not self._signal_strays(signal.SIGKILL):
                return

    def _signal_strays(self, number: signal.Signals) -> int:
        """Signal those that a signal to the group does not reach; return how many were found."""
        strays = [each for each in self._living() if not self.pid or each.group != self.pid]
        for process in strays:
            send(process, number)
        return len(strays)

    def _living(self) -> list[Process]:
        census, mark = take_census(), own_mark(self.mark)
        return [
            process
            for process in census.by_pid.values()
            # The kernel's own threads are in a group 0.
            if (self.pid and process.group == self.pid)
            or (process.began >= self.began and mark in census.marks(process))
        ]


def end_trees(trees: Iterable[Tree], grace_seconds: float) -> None:
    """End trees that nobody else ends; blocks for little more than the grace.

    Args:
        trees: ours, beyond doubt: their groups are signalled as groups.
        grace_seconds: between TERM and KILL.
    """
    left = list(trees)
    for tree in left:
        tree.terminate()
    left = _wait(lambda: [tree for tree in left if tree.is_alive()], grace_seconds)
    for tree in left:
        tree.kill()


def end_exactly(trees: Iterable[Tree], grace_seconds: float) -> int:
    """End what is of these trees beyond doubt, though their pids may be strangers' by now.

    Only who carries a mark, and who is in the group of a leader with that very pid and start;
    each is signalled by itself, so that none that gets a pid meanwhile is met. Linux only.

    Args:
        trees: what an earlier process knew; the pids may be anybody's.
        grace_seconds: between TERM and KILL.

    Returns:
        How many processes were found.
    """
    wanted = list(trees)
    if not wanted:
        return 0
    known: set[Process] = set()

    def living() -> list[Process]:
        census = take_census()
        known.update(_members(census, wanted))
        return [process for process in known if _is_same(census.by_pid.get(process.pid), process)]

    for process in living():
        send(process, signal.SIGTERM)
    _wait(living, grace_seconds)
    for _ in range(_MOST_ROUNDS):
        if not (left := living()):
            break
        for process in left:
            send(process, signal.SIGKILL)
    return len({(process.pid, process.began) for process in known})


def _members(census: Census, trees: list[Tree]) -> list[Process]:
    leaders = ((tree.pid, census.by_pid.get(tree.pid), tree.began) for tree in trees)
    groups = {
        pid
        for pid, leader, began in leaders
        if leader is not None and leader.group == pid and leader.began == began
    }
    marks = {own_mark(tree.mark) for tree in trees}
    return [
        process
        for process in census.by_pid.values()
        if process.group in groups or not marks.isdisjoint(census.marks(process))
    ]


def _is_same(now: Process | None, before: Process) -> bool:
    return now is not None and now.began == before.began


def _wait(left: Callable[[], list[FoundT]], seconds: float) -> list[FoundT]:
    """Wait, within a bound, until nobody is left; return who is."""
    end = time.monotonic() + seconds
    while (found := left()) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    return found
