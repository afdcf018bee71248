"""Thread files that come into being, or go, as a whole: others see all of one or nothing.

Owns temporary names and the lock meanwhile. Refuses to know what is in the files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from treadle.errors import InvalidParams
from treadle.thread.blobs import delete_blobs
from treadle.thread.files import check_regular, degraded, open_private, sync, sync_folder
from treadle.thread.lock import ThreadLock
from treadle.thread.paths import DAMAGED_SUFFIX, beside

# What is being written beside a thread; after a kill it is in nobody's way.
NEW_SUFFIX = ".new"


@contextlib.contextmanager
def new_thread(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write a thread to, which is there once the `with` block has ended well.

    Args:
        path: where; missing folders are made.

    Raises:
        InvalidParams: there is a thread already.
        ThreadLocked: somebody is about to begin one.
        StorageDegraded: it could not be written; nothing is left of it.
    """
    lock = ThreadLock.acquire(path)
    temporary = beside(path, NEW_SUFFIX)
    try:
        _require_free(path)
        descriptor, _ = open_private(temporary, os.O_RDWR | os.O_TRUNC)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            sync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise degraded(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
        lock.release()


def delete_thread(path: Path) -> bool:
    """Delete a thread and all that lies beside it, whatever is in it; it blocks.

    Args:
        path: its file.

    Returns:
        Whether there was one.

    Raises:
        ThreadLocked: somebody holds it.
        ThreadUnreadable: there is something that is no file.
        StorageDegraded: it could not be deleted, or not all of it.
    """
    check_regular(path)
    damaged = beside(path, DAMAGED_SUFFIX)
    if not path.parent.is_dir():
        return False
    lock = ThreadLock.acquire(path)
    try:
        there = path.exists() or path.is_symlink() or damaged.exists()
        # The thread first: whatever then fails leaves no part of a conversation behind.
        path.unlink(missing_ok=True)
        damaged.unlink(missing_ok=True)
        beside(path, NEW_SUFFIX).unlink(missing_ok=True)
        delete_blobs(path)
        sync_folder(path.parent)
    except OSError as error:
        raise degraded(path, error) from error
    finally:
        lock.release()
    return there


def _require_free(path: Path) -> None:
    check_regular(path)
    if path.exists() and path.stat().st_size:
        raise InvalidParams(
            f"there is a thread already, {path}; delete it or take another instance", path="into"
        )
