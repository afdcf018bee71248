"""The stored threads of pairs: how one is opened, copied and deleted under this daemon's rules.

Owns what is to be settled before a thread's name can be used. Everything here blocks, and is
called in worker threads. Refuses to know sessions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from treadle.errors import StorageDegraded, ThreadExists, ThreadLocked
from treadle.runtime.outbox import Pair
from treadle.runtime.services import Services
from treadle.thread import whole
from treadle.thread.fork import fork
from treadle.thread.paths import thread_path
from treadle.thread.tasks import delete_with_tasks
from treadle.thread.thread import Thread

T = TypeVar("T")


def stored_path(pair: Pair, services: Services) -> Path:
    """Return the file of a pair's thread; it need not exist."""
    return thread_path(services.folders.data, *pair)


def open_stored(pair: Pair, services: Services) -> Thread:
    """Open a pair's file; where it is just being deleted, begin it afresh once it is gone.

    Raises:
        RequestFailed: it is held, or unreadable.
    """
    path = stored_path(pair, services)

    def attempt() -> Thread:
        whole.settle(path)
        return Thread.open(path, agent=pair.agent, instance=pair.instance)

    return _past_expiry(attempt, services)


def delete_stored(pair: Pair, services: Services) -> bool:
    """Delete a pair's thread and those of its tasks; return whether there was one.

    Raises:
        RequestFailed: it is held by another process, or cannot be deleted.
    """
    data = services.folders.data
    return _past_expiry(lambda: delete_with_tasks(data, *pair), services)


def copy_stored(
    source: Pair, held: Thread | None, into: Pair, services: Services, at: int | None
) -> None:
    """Begin a pair's thread as a copy of another one's conversation.

    Args:
        source: the pair to copy from.
        held: its thread, where this process has it.
        into: the pair to begin, of an agent that there is.
        services: the daemon's.
        at: the last ordinal to copy; the end of what is finished if absent.

    Raises:
        RequestFailed: there is no such agent or source, or a thread already.
    """
    services.catalogue.find(into.agent)
    if held is not None and held.storage == "degraded":
        raise StorageDegraded(
            f"the newest messages of {_named(source)} cannot be written now, and a copy would "
            "lack them; free some space or repair the disk and try again",
            path=str(held.path),
        )
    path = stored_path(into, services)
    fork(stored_path(source, services), path, at=at, origin=source, pair=into)


def keep_copy(copied: Thread, into: Pair, services: Services) -> None:
    """Begin a pair's thread in memory as a copy that was made already.

    Raises:
        RequestFailed: there is no such agent, or a thread already.
    """
    services.catalogue.find(into.agent)
    if services.memory.setdefault(into, copied) is not copied:
        raise exists(into, services)


def exists(pair: Pair, services: Services) -> ThreadExists:
    """Say that a pair has a thread already; returned, for the caller to raise."""
    return ThreadExists(
        f"{_named(pair)} is there already; delete it or take another instance",
        path=str(stored_path(pair, services)),
    )


def _named(pair: Pair) -> str:
    return f"agent {pair.agent!r}, instance {pair.instance!r},"


def _past_expiry(attempt: Callable[[], T], services: Services) -> T:
    """Do something with a thread; where this process is just deleting it, do so afterwards."""
    try:
        return attempt()
    except ThreadLocked as locked:
        # No pid yet where the lock was taken a moment ago.
        if locked.data.get("pid", os.getpid()) != os.getpid():
            raise
    services.expiry.settle()
    return attempt()
