"""The threads of tasks beside those of their parents: finding them, and deleting them together.

Everything here blocks on the disk, and is called in worker threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from treadle.thread.catalogue import NotOurs, pair_of, thread_files
from treadle.thread.paths import thread_path
from treadle.thread.task import TASK_SIGN, TaskThread, task_of, task_thread
from treadle.thread.whole import delete_thread

# What the name of a file has in it that was cut: only its first line says what it stands for.
_CUT = "++"


def all_tasks(data: Path) -> Iterator[TaskThread]:
    """Yield every task's thread; those that cannot be read are left out.

    Args:
        data: the data folder; it need not exist.
    """
    for path, pair in _named_so(data):
        with contextlib.suppress(OSError):
            if task := task_thread(path, pair):
                yield task


def tasks_of(data: Path, agent: str, instance: str) -> list[TaskThread]:
    """Return the threads of a pair's tasks, by number."""
    found: list[TaskThread] = []
    for path, pair in _named_so(data, instance):
        with contextlib.suppress(OSError):
            task = task_thread(path, pair)
            found += [task] if task and task.parent == (agent, instance) else ()
    return sorted(found, key=lambda one: one.number)


def last_number(data: Path, instance: str) -> int:
    """Return the highest number in the name of a task of an instance; 0 where there is none.

    A session that a person has named so counts too, for its thread is not to be used.
    """
    named = (task_of(pair[1]) for _, pair in _named_so(data, instance))
    return max((found[1] for found in named if found), default=0)


def delete_with_tasks(data: Path, agent: str, instance: str) -> bool:
    """Delete a thread and those of its tasks, which go first; return whether there was one.

    What a kill leaves is a thread with fewer tasks, never a task without its thread.

    Raises:
        ThreadLocked: somebody holds one of them.
        ThreadUnreadable, StorageDegraded: one of them cannot be deleted.
    """

    def tasks_go() -> bool:
        for task in tasks_of(data, agent, instance):
            delete_thread(task.path)
        return True

    return delete_thread(thread_path(data, agent, instance), may_go=tasks_go)


def _named_so(data: Path, instance: str | None = None) -> Iterator[tuple[Path, tuple[str, str]]]:
    """Yield the files and pairs of threads whose names are those of tasks.

    Args:
        data: the data folder.
        instance: only of tasks of this one, of whatever agent.
    """
    for path in thread_files(data, []):
        # Most names tell at a glance, without being decoded.
        if TASK_SIGN not in path.name and _CUT not in path.name:
            continue
        try:
            pair = pair_of(data, path)
        except (OSError, NotOurs):
            continue
        named = task_of(pair[1])
        if named and instance in (None, named[0]):
            yield path, pair
