"""What daemons that were killed together with their reapers have left: ended at the next start.

Owns which of it is ours beyond doubt: who carries a recorded mark, and the group of a leader with
the recorded pid and start, in this run of the machine. A file that is anybody else's, no plain
file, too large or still locked is left alone. Linux only, for elsewhere nothing is recorded.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from treadle.process.census import HAS_PROC, MARK_VARIABLE
from treadle.process.record import FORMAT, RENEW_BYTES, SUFFIX, boot_id, is_at, lock
from treadle.process.telling import standing
from treadle.process.tree import Tree, end_exactly

logger = logging.getLogger(__name__)

# Between TERM and KILL; they have outlived their daemon long enough.
GRACE_SECONDS = 0.2

# More files than this are not of daemons; the next start looks at others.
_MOST_FILES = 256

# A daemon writes its file anew at a quarter of this.
_MOST_BYTES = 4 * RENEW_BYTES

# A link or a pipe is no record of ours, and must not block who opens it.
_FLAGS = (
    os.O_RDWR
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


def reap_left(folder: Path) -> int:
    """End what the records of dead daemons name, and remove those; blocks for up to a second.

    Contract: never raises, and meets no stranger. A tree that this very process is part of is left
    alone, with its record.

    Args:
        folder: where records are kept; it need not exist.

    Returns:
        How many processes were found and ended.
    """
    if not HAS_PROC:
        return 0
    with contextlib.ExitStack() as stack:
        dead: dict[Path, list[Tree]] = {}
        for path in _records(folder):
            descriptor = _take(path)
            if descriptor is None:
                continue
            stack.callback(os.close, descriptor)
            recorded = _trees(descriptor)
            if recorded is not None:
                dead[path] = recorded
        trees = [tree for named in dead.values() for tree in named]
        found = end_exactly([tree for tree in trees if not _is_around_us(tree)], GRACE_SECONDS)
        for path, named in dead.items():
            # Under its lock, so that nobody is between making it and locking it.
            if not any(map(_is_around_us, named)):
                with contextlib.suppress(OSError):
                    path.unlink()
    if found:
        logger.warning("ended %d processes that a killed daemon had left", found)
    return found


def _records(folder: Path) -> Iterator[Path]:
    try:
        if folder.is_symlink():
            return
        with os.scandir(folder) as entries:
            named = (Path(entry.path) for entry in entries if entry.name.endswith(SUFFIX))
            yield from islice(named, _MOST_FILES)
    except OSError:
        return


def _take(path: Path) -> int | None:
    """Open and lock the record of a dead daemon; None where it is none of ours."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if _is_ours(os.fstat(descriptor)) and lock(descriptor) and is_at(descriptor, path):
            return descriptor
    os.close(descriptor)
    return None


def _is_ours(status: os.stat_result) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and status.st_nlink == 1
        and status.st_size <= _MOST_BYTES
    )


def _trees(descriptor: int) -> list[Tree] | None:
    """Read a record; None where it is none.

    One of another run of the machine names nobody any more, and one whose daemon was killed right
    after it was made is empty.
    """
    try:
        head, *lines = os.pread(descriptor, _MOST_BYTES, 0).split(b"\n")
        if head == f"{FORMAT} {boot_id()}".encode():
            return standing(lines)
    except OSError:
        return None
    return [] if not head or head.startswith(f"{FORMAT} ".encode()) else None


def _is_around_us(tree: Tree) -> bool:
    marks = os.environ.get(MARK_VARIABLE, "").split(",")
    return tree.mark in marks or (tree.pid != 0 and tree.pid == os.getpgrp())
