"""Threads that expire: which ones, and how a whole one is deleted.

Owns what may be deleted at all. Refuses to know who asked for it, and when.

Only what can be proved is deleted: a thread whose first line names the very pair that its path
stands for, of which every line can be read, that nobody holds or has open, and that was not
written within the last day. Whatever else is due stays, and is told. Files are named exactly;
nothing is found by a beginning or a pattern.

`whole` deletes: a kill leaves the whole thread, or none and remains that are cleared later.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import RequestFailed
from treadle.thread import unsaved
from treadle.thread.catalogue import NotOurs, ThreadProblem, pair_of, thread_files
from treadle.thread.lines import UNREADABLE, decode, lines_of, opened
from treadle.thread.lock import ThreadLock, holder
from treadle.thread.obstacles import obstacles
from treadle.thread.paths import (
    DAMAGED_SUFFIX,
    LOCK_SUFFIX,
    SHOWN_FOLDER,
    THREAD_SUFFIX,
    THREADS_FOLDER,
    beside,
    thread_path,
)
from treadle.thread.records import FORMAT_VERSION, RecordLine, ThreadRecord
from treadle.thread.task import TaskThread
from treadle.thread.tasks import all_tasks
from treadle.thread.whole import delete_thread

DAY_NS = 86_400 * 10**9

# What somebody used today is not thrown away, whatever a figure in a file says.
RECENT_NS = DAY_NS


@dataclass(frozen=True, slots=True)
class Policy:
    """What a person wants to keep; where a figure is missing, nothing expires by it.

    Args:
        days: a thread that was not written for so long is due.
        threads: all but so many are due, those written last being kept.
    """

    days: int | None = None
    threads: int | None = None

    def __bool__(self) -> bool:
        return self.days is not None or self.threads is not None


@dataclass(frozen=True, slots=True)
class Due:
    """A thread whose time has come.

    Args:
        path: its file.
        agent: the pair's agent; empty where that cannot be told.
        instance: the pair's instance.
        updated_ns: when it was last written.
        size_bytes: how large it was then.
        stays: why it is kept all the same; empty where it may go.
        tasks: the threads of its tasks, which stay with it and go with it.
    """

    path: Path
    agent: str
    instance: str
    updated_ns: int
    size_bytes: int
    stays: str = ""
    tasks: tuple[TaskThread, ...] = ()


def look(data: Path, policy: Policy, now_ns: int) -> Iterator[Due]:
    """Yield every thread that is due, the oldest first; changes nothing, and blocks.

    Args:
        data: the data folder; it need not exist.
        policy: what is kept.
        now_ns: the time.
    """
    tasks = _tasks_by_parent(data)
    theirs = {task.path for found in tasks.values() for task in found}
    found = [each for each in _by_age(data) if each[0] not in theirs]
    for path, status in _due(found, policy, now_ns):
        own = tasks.get(path, ())
        try:
            agent, instance = _prove(data, path, status, now_ns)
            _prove_tasks(data, own, (agent, instance), now_ns)
            due = Due(path, agent, instance, status.st_mtime_ns, status.st_size, tasks=own)
        except FileNotFoundError:
            continue  # it was deleted while we looked
        except _Stays as why:
            due = Due(path, *why.pair, status.st_mtime_ns, status.st_size, str(why))
        yield due


def delete(due: Due, now_ns: int, is_open: Callable[[str, str], bool] = lambda *_: False) -> bool:
    """Delete a thread that may go, with all that lies beside it; blocks for a moment.

    Whoever resumes it meanwhile has it, or begins it afresh when it is gone.

    Args:
        due: the thread, from `look`.
        now_ns: the time.
        is_open: whether a pair is open in this process, also while it holds no lock.

    Returns:
        Whether it is gone; it stays where it was used meanwhile or cannot be deleted.
    """

    def may_go() -> bool:
        pairs = [(due.agent, due.instance), *(task.pair for task in due.tasks)]
        if any(is_open(*pair) for pair in pairs) or not _is_as_it_was(due, now_ns):
            return False
        for task in due.tasks:
            delete_thread(task.path)
        return True

    try:
        return delete_thread(due.path, may_go=may_go)
    except RequestFailed:
        # Somebody holds it; or it is gone, and what could not be cleared is when it is finished.
        return not due.path.exists()


def tidy(data: Path) -> None:
    """Remove nobody's locks, and the folders of agents in which nothing is left; blocks."""
    for lock in (data / THREADS_FOLDER).glob(f"*/*{LOCK_SUFFIX}"):
        thread = lock.with_suffix(THREAD_SUFFIX)
        if not thread.exists():
            # Letting it go removes it; somebody's is not ours to take.
            with contextlib.suppress(RequestFailed):
                ThreadLock.acquire(thread).release()
    for folder in (*data.glob(f"{THREADS_FOLDER}/*"), *data.glob(f"{SHOWN_FOLDER}/*")):
        # It is not empty, or no folder.
        with contextlib.suppress(OSError):
            folder.rmdir()


class _Stays(Exception):
    """A thread is due and may not be deleted; the text says why."""

    def __init__(self, why: str, pair: tuple[str, str] = ("", "")) -> None:
        super().__init__(why)
        self.pair = pair


def _by_age(data: Path) -> list[tuple[Path, os.stat_result]]:
    """Return every thread's file, the one that was written last first."""
    # A folder that cannot be listed holds no thread that could be deleted.
    unlisted: list[ThreadProblem] = []
    found = []
    for path in thread_files(data, unlisted):
        with contextlib.suppress(OSError):
            found.append((path, path.lstat()))
    return sorted(found, key=lambda each: (-each[1].st_mtime_ns, each[0]))


def _tasks_by_parent(data: Path) -> dict[Path, tuple[TaskThread, ...]]:
    """Return the threads of tasks by their parent's file; without a parent they are as others."""
    found: dict[Path, tuple[TaskThread, ...]] = {}
    for task in all_tasks(data):
        parent = thread_path(data, *task.parent)
        if parent in found or parent.exists():
            found[parent] = (*found.get(parent, ()), task)
    return found


def _prove_tasks(
    data: Path, tasks: tuple[TaskThread, ...], parent: tuple[str, str], now_ns: int
) -> None:
    """Refuse a thread with a task's thread that may not go.

    Raises:
        _Stays: there is one.
    """
    for task in tasks:
        try:
            _prove(data, task.path, task.path.lstat(), now_ns)
        except FileNotFoundError:
            continue
        except _Stays as why:
            raise _Stays(f"the thread of its task {task.number} stays: {why}", parent) from why


def _due(
    found: list[tuple[Path, os.stat_result]], policy: Policy, now_ns: int
) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield what is due, the oldest first."""
    for rank in range(len(found) - 1, -1, -1):
        path, status = found[rank]
        age_ns = now_ns - status.st_mtime_ns
        by_age = policy.days is not None and age_ns > policy.days * DAY_NS
        by_rank = policy.threads is not None and rank >= policy.threads
        if by_age or by_rank:
            yield path, status


def _prove(data: Path, path: Path, status: os.stat_result, now_ns: int) -> tuple[str, str]:
    """Return whose thread a file is, once everything says that it may go.

    Raises:
        _Stays: something does not.
        FileNotFoundError: it is gone.
    """
    if not stat.S_ISREG(status.st_mode):
        raise _Stays("it is no regular file")
    try:
        pair = pair_of(data, path)
    except (NotOurs, PermissionError) as error:
        raise _Stays("it cannot be told whose it is") from error
    if now_ns - status.st_mtime_ns < RECENT_NS:
        raise _Stays("it was used within the last day", pair)
    if beside(path, DAMAGED_SUFFIX).exists():
        raise _Stays("a part of it lies in a .damaged file", pair)
    if any(obstacles(path)):
        raise _Stays("something that is not ours lies in the place of a file of it", pair)
    if unsaved.find(path):
        raise _Stays("a part of it waits to be written", pair)
    if beside(path, LOCK_SUFFIX).exists() and (pid := holder(path)) is not None:
        raise _Stays(f"process {pid or 'of another user'} holds it", pair)
    _require_readable(data, path, pair)
    return pair


def _require_readable(data: Path, path: Path, pair: tuple[str, str]) -> None:
    """Refuse a thread that is not wholly and plainly this pair's.

    Raises:
        _Stays: it is not.
    """
    try:
        header = _header_of(path)
    except (RequestFailed, *UNREADABLE) as error:
        raise _Stays("not all of it can be read", pair) from error
    if header is not None and header.version > FORMAT_VERSION:
        raise _Stays("a newer Treadle has written it", pair)
    if header is None or (header.agent, header.instance) != pair:
        raise _Stays("its first line does not say whose it is", pair)
    if thread_path(data, *pair) != path:
        raise _Stays("it lies where another thread would", pair)


def _header_of(path: Path) -> ThreadRecord | None:
    """Read a whole thread, line by line, for it may be large; return what the first record says.

    Raises:
        ThreadUnreadable: it cannot be opened.
        msgspec.MsgspecError, RecursionError, UnicodeError: a line cannot be read.
    """
    header: ThreadRecord | None = None
    with opened(path) as file:
        for line in lines_of(file):
            decoded = None if line.isspace() else decode(line)
            if header is None and isinstance(decoded, RecordLine):
                header = decoded.thread
    return header


def _is_as_it_was(due: Due, now_ns: int) -> bool:
    """Look once more, under the lock: nobody has written it or damaged it since."""
    try:
        status = due.path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and (status.st_mtime_ns, status.st_size) == (due.updated_ns, due.size_bytes)
        and now_ns - status.st_mtime_ns >= RECENT_NS
        and not beside(due.path, DAMAGED_SUFFIX).exists()
    )
