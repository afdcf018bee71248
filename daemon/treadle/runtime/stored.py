"""The stored threads of pairs: how one is opened, copied and deleted under this daemon's rules.

Owns what is to be settled before a thread's name can be used. Everything here blocks, and is
called in worker threads. Refuses to know sessions.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from treadle.errors import RequestFailed, StorageDegraded, ThreadExists, ThreadLocked
from treadle.runtime.holder import with_way
from treadle.runtime.outbox import Pair
from treadle.runtime.services import Services
from treadle.thread import whole
from treadle.thread.fork import fork
from treadle.thread.paths import OUTPUTS_SUFFIX, beside, thread_path
from treadle.thread.records import Parent
from treadle.thread.task import task_instance, task_of
from treadle.thread.tasks import delete_with_tasks, last_number, tasks_of
from treadle.thread.thread import Thread

T = TypeVar("T")

# More than a model keeps in view; a turn that goes on has lost its way.
TASKS_OF_TURN = 32


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

    try:
        return _past_expiry(attempt, services)
    except ThreadLocked as locked:
        raise with_way(locked, services.folders.data) from locked


def require_deletable(pair: Pair, services: Services) -> None:
    """Refuse a deletion that the disk does not allow, before a session is given up for it.

    Raises:
        StorageDegraded: the thread's folder cannot be written.
    """
    path = stored_path(pair, services)
    if os.access(path, os.F_OK) and not os.access(path.parent, os.W_OK):
        raise StorageDegraded(
            f"{path} cannot be deleted: its folder cannot be written; the session is as it was. "
            "Make the folder writable and try again",
            path=str(path),
        )


def delete_stored(pair: Pair, services: Services) -> bool:
    """Delete a pair's thread and those of its tasks; return whether there was one.

    Raises:
        RequestFailed: it is held by another process, or cannot be deleted.
    """
    data = services.folders.data
    return _past_expiry(lambda: delete_with_tasks(data, *pair), services)


class BegunTask(NamedTuple):
    """A task's number, and its thread, which is new and open."""

    number: int
    pair: Pair
    thread: Thread


def last_task(parent: Pair, services: Services) -> int:
    """Return the number of a session's last task, or of a session that is named as one; 0 where
    there is none.
    """
    kept = (task_of(pair.instance) for pair in services.memory)
    numbers = [named[1] for named in kept if named and named[0] == parent.instance]
    return max([last_number(services.folders.data, parent.instance), *numbers])


def begin_task(
    parent: Pair, agent: str, number: int, services: Services, *, is_kept: bool
) -> BegunTask:
    """Begin the thread of a task under the first number from `number` on that is free.

    Args:
        parent: whose task it is.
        agent: who does it.
        number: the number that is wanted.
        services: the daemon's.
        is_kept: it is kept in a file, as its parent's thread is, and not in memory.

    Raises:
        RequestFailed: it cannot be begun.
    """
    while True:
        pair = Pair(agent, task_instance(parent.instance, number))
        path = stored_path(pair, services)
        if not path.exists() and pair not in services.memory:
            break
        number += 1
    if not is_kept:
        thread = services.memory[pair] = Thread.in_memory()
        services.tasks[pair] = parent
        return BegunTask(number, pair, thread)
    whole.settle(path)
    thread = Thread.open(path, agent=agent, instance=pair.instance, parent=Parent(*parent))
    return BegunTask(number, pair, thread)


def end_interrupted_tasks(parent: Pair, services: Services) -> None:
    """Have the threads of a session's last tasks say that they were interrupted, where a kill
    ended them with their parent's turn.
    """
    tasks = tasks_of(services.folders.data, *parent)
    for task in tasks[-TASKS_OF_TURN:]:
        # Held by somebody, or not to be read: they are ended by whoever opens them next.
        with contextlib.suppress(RequestFailed):
            Thread.open(task.path).close()


def outputs_folder(thread: Thread) -> Path | None:
    """Return where too long outputs of a thread's tools lie; nowhere for one in memory."""
    return None if thread.path is None else beside(thread.path, OUTPUTS_SUFFIX)


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
