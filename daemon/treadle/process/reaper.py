"""A process that ends what a killed daemon leaves: the one thing that outlives it, for a moment.

Owns that process, and what it and the records on disk are told. It holds the end of a pipe that
the kernel closes with the daemon, however that dies, and then ends every tree that it was told of
and not told to forget. There is at most one; it begins with the first child and goes with the
daemon. Where it is killed as well, a `record` tells the next start. On Windows there is none.
Refuses to know who starts trees.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from treadle.process.group import group_options
from treadle.process.record import Record
from treadle.process.shell import shell_environment
from treadle.process.telling import begun, ended, standing
from treadle.process.tree import Tree, end_trees, own_mark

# Between TERM and KILL, for what a killed daemon left.
GRACE_SECONDS = 0.2


class Reaper:
    """The daemon's side: tells the process what to end.

    Contract: nothing here raises; without that process everything else works.
    """

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._records: dict[Path, Record] = {}
        self._recording: Counter[Path] = Counter()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """See to it that the process is there; blocks for some milliseconds the first time."""
        with self._lock:
            if sys.platform == "win32" or (self._process and self._process.poll() is None):
                return
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
            try:
                self._process = _start()
            except OSError:
                self._process = None
            for tree in self._trees.values():
                self._tell(begun(tree))

    def record_in(self, folder: Path) -> None:
        """Keep a record there as well, until `stop_recording` was called as often as this.

        Args:
            folder: a daemon's own; it is not touched before there is something to record.
        """
        with self._lock:
            self._recording[folder] += 1
            if folder not in self._records:
                self._records[folder] = Record(folder)

    def stop_recording(self, folder: Path) -> None:
        """Keep no record there any more, and remove it; blocks for a moment."""
        with self._lock:
            self._recording[folder] -= 1
            if self._recording[folder] <= 0:
                del self._recording[folder]
                if folder in self._records:
                    self._records.pop(folder).end()

    def watch(self, tree: Tree) -> None:
        """Have a tree ended, should this process be killed; blocks for a moment.

        A tree of the same mark that was watched before is this one.
        """
        with self._lock:
            self._trees[own_mark(tree.mark)] = tree
            self._change(begun(tree))

    def forget(self, tree: Tree) -> None:
        """Have a tree left alone, because it has ended; blocks for a moment."""
        with self._lock:
            if self._trees.pop(own_mark(tree.mark), None) is not None:
                self._change(ended(tree))

    def _change(self, line: str) -> None:
        self._tell(line)
        for record in self._records.values():
            record.tell(line, self._trees.values())

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # It may be dead, which is seen when it is needed next. A line is written whole or not at
        # all.
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
    end_trees(standing(sys.stdin.buffer), GRACE_SECONDS)
