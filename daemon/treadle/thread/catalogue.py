"""Every stored thread, found without reading more of it than a list shows.

Owns what a list needs. Takes no lock and decodes no messages.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle.errors import ThreadUnreadable
from treadle.thread.files import check_regular
from treadle.thread.header import read_header
from treadle.thread.lock import holder
from treadle.thread.message import LINE_START, rfc3339
from treadle.thread.paths import (
    LOCK_SUFFIX,
    THREAD_SUFFIX,
    THREADS_FOLDER,
    decode_name,
    thread_path,
)
from treadle.thread.task import task_of, task_thread

# Counted piece by piece, so that a list never holds a whole thread in memory.
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredThread:
    """A thread on disk.

    Args:
        agent: the pair's agent.
        instance: the pair's instance.
        path: its file.
        messages: how many message lines it has, those that cannot be read included.
        updated_at: when it was last written, RFC 3339 in UTC.
        updated_ns: the same in nanoseconds, to sort by.
        held_by: the pid that writes it now, 0 where that cannot be told, or None.
    """

    agent: str
    instance: str
    path: Path
    messages: int
    updated_at: str
    updated_ns: int
    held_by: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadProblem:
    """A file or folder that no thread could be told from, and why."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A thread as the folder shows it: all that is needed to put it in its place in a list."""

    agent: str
    instance: str
    path: str
    updated_ns: int
    size_bytes: int
    may_be_held: bool
    is_task: bool = False


class ThreadIndex:
    """The stored threads, and what was read of them while their files have not changed.

    It is never the truth: each look asks the file system anew, and what is remembered of a file
    of another size or time is forgotten. Made once, used in one worker thread at a time.

    Args:
        data: the data folder; it need not exist.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._pairs: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, _Count] = {}
        self._tasks: dict[str, tuple[int, bool]] = {}  # by inode: the first line never changes

    def scan(self) -> tuple[list[Listed], list[ThreadProblem]]:
        """Find every stored thread, newest first, and what had to be left out; it blocks."""
        problems: list[ThreadProblem] = []
        found: list[Listed] = []
        for folder in _entries(self._data / THREADS_FOLDER, problems):
            if folder.is_dir():
                found += self._listed(folder, problems)
        seen = {one.path for one in found}
        self._pairs = {path: pair for path, pair in self._pairs.items() if path in seen}
        self._counts = {path: count for path, count in self._counts.items() if path in seen}
        self._tasks = {path: known for path, known in self._tasks.items() if path in seen}
        found.sort(key=lambda one: (-one.updated_ns, one.agent, one.instance))
        return found, problems

    def look_at(self, listed: Listed) -> StoredThread:
        """Return what a list shows of a thread; it blocks.

        Raises:
            OSError: it cannot be read, or is gone.
        """
        count = self._counts.get(listed.path)
        if count is None or count[:2] != (listed.updated_ns, listed.size_bytes):
            messages = _count_messages(Path(listed.path))
            count = self._counts[listed.path] = _Count(
                listed.updated_ns, listed.size_bytes, messages
            )
        return StoredThread(
            agent=listed.agent,
            instance=listed.instance,
            path=Path(listed.path),
            messages=count.messages,
            updated_at=rfc3339(datetime.fromtimestamp(listed.updated_ns // 10**6 / 1000, UTC)),
            updated_ns=listed.updated_ns,
            held_by=holder(Path(listed.path)) if listed.may_be_held else None,
        )

    def _listed(self, folder: Path, problems: list[ThreadProblem]) -> Iterator[Listed]:
        """Yield the threads of one agent."""
        try:
            with os.scandir(folder) as entries:
                here = list(entries)
        except OSError as error:
            problems.append(ThreadProblem(folder, error.strerror or str(error)))
            return
        locks = {entry.name for entry in here if entry.name.endswith(LOCK_SUFFIX)}
        for entry in here:
            if entry.name.endswith(THREAD_SUFFIX):
                try:
                    yield self._entry(entry, locks)
                except FileNotFoundError:
                    # It was deleted while we looked.
                    continue
                except (OSError, ThreadUnreadable, NotOurs) as error:
                    problems.append(ThreadProblem(Path(entry.path), str(error)))

    def _entry(self, entry: os.DirEntry[str], locks: set[str]) -> Listed:
        status = entry.stat()
        if not stat.S_ISREG(status.st_mode):
            check_regular(Path(entry.path))
        pair = self._pairs.get(entry.path)
        if pair is None:
            pair = self._pairs[entry.path] = pair_of(self._data, Path(entry.path))
        lock = entry.name.removesuffix(THREAD_SUFFIX) + LOCK_SUFFIX
        return Listed(
            *pair,
            path=entry.path,
            updated_ns=status.st_mtime_ns,
            size_bytes=status.st_size,
            # Most threads are held by nobody; this tells so cheaper than looking for the holder.
            # Through a link it may be another file's lock.
            may_be_held=lock in locks or entry.is_symlink(),
            is_task=task_of(pair[1]) is not None and self._is_task(entry.path, status, pair),
        )

    def _is_task(self, path: str, status: os.stat_result, pair: tuple[str, str]) -> bool:
        known = self._tasks.get(path)
        if known is None or known[0] != status.st_ino:
            is_task = task_thread(Path(path), pair) is not None
            known = self._tasks[path] = status.st_ino, is_task
        return known[1]


class _Count(NamedTuple):
    """How many messages a file had that was written at a time and has a size."""

    updated_ns: int
    size_bytes: int
    messages: int


class NotOurs(Exception):
    """A file whose pair nobody can tell."""


def thread_files(data: Path, problems: list[ThreadProblem]) -> Iterator[Path]:
    """Yield the file of every thread, looked at by its name alone.

    Args:
        data: the data folder; it need not exist.
        problems: gets what cannot be listed.
    """
    for folder in _entries(data / THREADS_FOLDER, problems):
        if folder.is_dir():
            for path in _entries(folder, problems):
                if path.suffix == THREAD_SUFFIX:
                    yield path


def pair_of(data: Path, path: Path) -> tuple[str, str]:
    """Tell whose thread a file is: by its names, or by its first line where they are hashed.

    Raises:
        NotOurs: neither says so.
        OSError: it cannot be read.
    """
    agent, instance = decode_name(path.parent.name), decode_name(path.stem)
    if agent is not None and instance is not None:
        return agent, instance
    header = read_header(path)
    if header is None or thread_path(data, header.agent, header.instance) != path:
        raise NotOurs("neither its name nor its first line says whose thread this is")
    return header.agent, header.instance


def _entries(folder: Path, problems: list[ThreadProblem]) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(ThreadProblem(folder, error.strerror or str(error)))
        return []


def _count_messages(path: Path) -> int:
    """Count lines that begin like a message, across the borders of chunks."""
    sought = b"\n" + LINE_START
    count, rest = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            piece = rest + chunk
            count += piece.count(sought)
            rest = piece[-(len(sought) - 1) :]
    return count
