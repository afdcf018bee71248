"""A process that ends what a killed daemon leaves: the one thing that outlives it, for a moment.

Owns that process and what it is told. It holds the end of a pipe that the kernel closes with the
daemon, however that dies, and then ends every tree that it was told of and not told to forget.
There is at most one; it begins with the first command and goes with the daemon. On Windows there
is none. Refuses to know who starts trees.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from treadle.process.group import group_options
from treadle.process.shell import shell_environment
from treadle.process.tree import Tree

# Between TERM and KILL, for what a killed daemon left.
GRACE_SECONDS = 0.2

# How often it looks whether that is needed.
_POLL_SECONDS = 0.02


class Reaper:
    """The daemon's side: tells the process what to end.

    Contract: nothing here raises; without that process everything else works.
    """

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """See to it that the process is there; blocks for some milliseconds the first time."""
        with self._lock:
            if sys.platform == "win32" or (self._process and self._process.poll() is None):
                return
            try:
                self._process = _start()
            except OSError:
                self._process = None
            for tree in self._trees.values():
                self._tell(f"+{tree.pid} {tree.began} {tree.mark}\n")

    def watch(self, tree: Tree) -> None:
        """Have a tree ended, should this process be killed."""
        with self._lock:
            self._trees[tree.mark] = tree
            self._tell(f"+{tree.pid} {tree.began} {tree.mark}\n")

    def forget(self, tree: Tree) -> None:
        """Have a tree left alone, because it has ended."""
        with self._lock:
            if self._trees.pop(tree.mark, None) is not None:
                self._tell(f"-{tree.mark}\n")

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # It may be dead, which is seen when it is needed next. A line is written whole or not at
        # all: it is shorter than any pipe's atomic write (POSIX, PIPE_BUF: 512 bytes).
        with contextlib.suppress(OSError, ValueError):
            os.write(self._process.stdin.fileno(), line.encode())


# One for the process: it is about the death of the process.
REAPER = Reaper()


def _start() -> subprocess.Popen[bytes]:
    # Where our packages are, for a Python that looks nowhere else: it begins in half the time.
    root = str(Path(__file__).parents[2])
    code = (
        f"import sys; sys.path.insert(0, {root!r}); from treadle.process import reaper; "
        "reaper.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=shell_environment(),
        cwd="/",
        bufsize=0,
        **group_options(),
    )
    assert process.stdin is not None
    # A process that hangs must not hang us.
    os.set_blocking(process.stdin.fileno(), False)
    return process


def main() -> None:
    """Be that process: note what is told until the daemon is gone, then end what is left."""
    # Whoever ends the daemon with all around it must not take this first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _end(_left(sys.stdin.buffer))


def _left(lines: Iterable[bytes]) -> list[Tree]:
    """Return what was told of and not forgotten, once nothing more is told."""
    trees: dict[str, Tree] = {}
    for line in lines:
        told = line[1:].decode().split()
        if line.startswith(b"+"):
            trees[told[2]] = Tree(int(told[0]), told[2], int(told[1]))
        else:
            trees.pop(told[0], None)
    return list(trees.values())


def _end(trees: list[Tree]) -> None:
    for tree in trees:
        tree.terminate()
    end = time.monotonic() + GRACE_SECONDS
    while trees and time.monotonic() < end:
        trees = [tree for tree in trees if tree.is_alive()]
        time.sleep(_POLL_SECONDS)
    for tree in trees:
        tree.kill()
