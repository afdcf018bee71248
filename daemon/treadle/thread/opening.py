"""Taking a thread: the right to write it, with all that was said in it.

Owns the order of those. Refuses to know what the lines say.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from treadle.errors import StorageDegraded, ThreadLocked
from treadle.thread import unsaved
from treadle.thread.files import degraded
from treadle.thread.lock import ThreadLock
from treadle.thread.obstacles import require_clear

logger = logging.getLogger(__name__)


def take(path: Path) -> ThreadLock:
    """Take the right to write a thread, and bring back what of it had to be left elsewhere.

    Where neither can be done now, the right is taken once it can.

    Args:
        path: the thread's file, which need not exist.

    Raises:
        ThreadLocked: somebody else has the right.
        ThreadUnreadable: the thread can never be written there, or something strange lies in the
            place of its other files.
        StorageDegraded: lines of it lie elsewhere and cannot be brought back now.
    """
    require_clear(path)
    lock = ThreadLock(path)
    try:
        lock.ensure()
    except StorageDegraded:
        if _lies_elsewhere(path):
            raise
        return lock
    try:
        strange = unsaved.bring_back(path)
    except OSError as error:
        lock.release()
        raise degraded(path, error) from error
    for place in strange:
        logger.warning("%s belongs to no thread that is there; look at it and delete it", place)
    return lock


def bring_back(path: Path) -> None:
    """Have a thread's file hold what of it had to be left elsewhere; mostly nothing was.

    Whoever has the right to write it has done so. It blocks.

    Args:
        path: the thread's file, which need not exist.

    Raises:
        ThreadUnreadable: the thread can never be written there.
        StorageDegraded: that cannot be done now.
    """
    if _lies_elsewhere(path):
        with contextlib.suppress(ThreadLocked):
            take(path).release()


def _lies_elsewhere(path: Path) -> bool:
    """Tell whether anything of a thread had to be left elsewhere.

    Raises:
        StorageDegraded: that cannot be told now.
    """
    try:
        return bool(unsaved.find(path))
    except OSError as error:
        raise degraded(path, error) from error
