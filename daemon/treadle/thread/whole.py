"""Thread files that come into being, or go, as a whole: others see all of one or nothing.

Owns temporary names and the lock meanwhile. Refuses to know what is in the files.

| a kill                             | leaves                                                   |
|------------------------------------|----------------------------------------------------------|
| before a new thread has its name   | no thread; what was written lies under `.new`            |
| before a deleted one has lost its  | the whole thread                                         |
| name, in one step                  |                                                          |
| after that                         | no thread; its remains, and their name ends in `.deleting` |

Remains are taken away by whoever uses that name next, by `finish` and by `tidy`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from treadle.errors import RequestFailed, ThreadExists
from treadle.thread import unsaved
from treadle.thread.blobs import delete_blobs
from treadle.thread.files import check_regular, degraded, open_ours, sync, sync_folder
from treadle.thread.lock import ThreadLock, holder
from treadle.thread.obstacles import is_own_file, require_clear
from treadle.thread.opening import take
from treadle.thread.paths import (
    DAMAGED_SUFFIX,
    DELETING_SUFFIX,
    NEW_SUFFIX,
    OUTPUTS_SUFFIX,
    THREAD_SUFFIX,
    THREADS_FOLDER,
    beside,
    shown_path,
)


@contextlib.contextmanager
def new_thread(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write a thread to, which is there once the `with` block has ended well.

    Args:
        path: where; missing folders are made.

    Raises:
        ThreadExists: there is a thread already.
        ThreadLocked: somebody is about to begin one.
        ThreadUnreadable: a folder, a link or a pipe is in the place of a file of it.
        StorageDegraded: it could not be written; nothing is left of it.
    """
    _require_free(path)
    settle(path)
    # What lies elsewhere of a thread that never had a file comes back first: it is there already.
    lock = take(path)
    temporary = beside(path, NEW_SUFFIX)
    is_there = False
    try:
        lock.ensure()
        _require_free(path)
        descriptor, _ = open_ours(temporary, os.O_RDWR | os.O_TRUNC)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            sync(file.fileno())
        temporary.replace(path)
        is_there = True
        sync_folder(path.parent)
    except OSError as error:
        raise degraded(path, error) from error
    finally:
        if not is_there:
            with contextlib.suppress(OSError):
                _give_up(path)
        lock.release()


def delete_thread(path: Path, *, may_go: Callable[[], bool] = lambda: True) -> bool:
    """Delete a thread and all that lies beside it, whatever is in it; it blocks.

    Args:
        path: its file.
        may_go: asked once its lock is held, so that nobody can use it any more.

    Returns:
        Whether there was one that might go.

    Raises:
        ThreadLocked: somebody holds it.
        ThreadUnreadable: there is something that is no file, or a folder, a link or a pipe in
            the place of what lies beside a thread; nothing was deleted.
        StorageDegraded: it could not be deleted, or not all of it.
    """
    check_regular(path)
    require_clear(path)
    gone = beside(path, DELETING_SUFFIX)
    if not path.parent.is_dir():
        return False
    lock = ThreadLock.acquire(path)
    try:
        if not may_go():
            return False
        there, is_thread = is_stored(path), _is_thread(path)
        elsewhere = unsaved.find(path)
        # In one step it is there no more; whatever then fails leaves no part of a conversation
        # where anybody would take it for one.
        if is_thread:
            path.replace(gone)
            sync_folder(path.parent)
        _unlink(elsewhere)
        _clear(path)
        sync_folder(path.parent)
    except OSError as error:
        raise degraded(path, error) from error
    finally:
        lock.release()
    return there


def is_stored(path: Path) -> bool:
    """Whether there is anything of a thread that `delete_thread` would delete; it blocks.

    Args:
        path: its file.
    """
    remains = [beside(path, DELETING_SUFFIX), beside(path, DAMAGED_SUFFIX), *unsaved.find(path)]
    return _is_thread(path) or any(remain.exists() for remain in remains)


def left_behind(data: Path) -> Iterator[Path]:
    """Yield what kills have left of new threads and of deleted ones; nobody is at work on it.

    Args:
        data: the data folder; it need not exist.
    """
    for suffix in (NEW_SUFFIX, DELETING_SUFFIX):
        for left in sorted((data / THREADS_FOLDER).glob(f"*/*{suffix}")):
            if is_own_file(left) and holder(_thread_of(left)) is None:
                yield left


def settle(path: Path) -> None:
    """Finish the deletion of a thread that a kill has interrupted; mostly there is none.

    Args:
        path: the thread's file.

    Raises:
        ThreadLocked: somebody is at work on it now.
        StorageDegraded: its remains cannot be deleted.
    """
    gone = beside(path, DELETING_SUFFIX)
    if is_own_file(gone):
        tidy(gone)


def tidy(left: Path) -> None:
    """Take away what a kill has left: what `left_behind` yields; it blocks.

    Raises:
        ThreadLocked: somebody is at work on it now.
        ThreadUnreadable: something strange lies in the place of what lies beside a thread.
        StorageDegraded: it cannot be deleted.
    """
    thread = _thread_of(left)
    require_clear(thread)
    lock = ThreadLock.acquire(thread)
    try:
        if left.suffix == NEW_SUFFIX:
            _give_up(thread)
        else:
            _clear(thread)
    except OSError as error:
        raise degraded(thread, error) from error
    finally:
        lock.release()


def finish(data: Path) -> None:
    """Take away everything that kills have left and that can be taken away now; it blocks.

    Args:
        data: the data folder; it need not exist.
    """
    for left in left_behind(data):
        # Somebody uses its name by now, or the disk does not let it go: next time.
        with contextlib.suppress(RequestFailed):
            tidy(left)


def _is_thread(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _clear(thread: Path) -> None:
    """Delete what is left beside a thread that was deleted; whoever calls holds its lock.

    Raises:
        OSError: something cannot be deleted.
    """
    # Where a new thread has begun under this name, what lies beside it is that one's.
    if not thread.exists():
        _unlink(unsaved.find(thread))
        beside(thread, DAMAGED_SUFFIX).unlink(missing_ok=True)
        shown_path(thread).unlink(missing_ok=True)
        _delete_outputs(thread)
        _give_up(thread)
    # Last, because it says that there is something to clear.
    beside(thread, DELETING_SUFFIX).unlink(missing_ok=True)


def _give_up(thread: Path) -> None:
    """Delete what a new thread that never came to be has left; whoever calls holds its lock.

    Raises:
        OSError: something cannot be deleted.
    """
    if not thread.exists():
        delete_blobs(thread)
    beside(thread, NEW_SUFFIX).unlink(missing_ok=True)


def _delete_outputs(thread: Path) -> None:
    """Delete what a killed process left of its tools' outputs; a session that ends leaves none.

    Raises:
        OSError: it cannot be deleted.
    """
    folder = beside(thread, OUTPUTS_SUFFIX)
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


def _unlink(places: Iterable[Path]) -> None:
    for place in places:
        place.unlink(missing_ok=True)


def _thread_of(left: Path) -> Path:
    return left.with_suffix(THREAD_SUFFIX)


def _require_free(path: Path) -> None:
    check_regular(path)
    require_clear(path)
    if path.exists() and path.stat().st_size:
        raise ThreadExists(
            f"there is a thread already, {path}; delete it or take another instance",
            path=str(path),
        )
