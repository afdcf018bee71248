"""Every stored thread, found without reading more of it than a list shows.

Owns what a list needs. Takes no lock and decodes no messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from treadle.errors import ThreadUnreadable
from treadle.thread.files import check_regular
from treadle.thread.lock import holder
from treadle.thread.message import LINE_START, rfc3339
from treadle.thread.paths import (
    LOCK_SUFFIX,
    THREAD_SUFFIX,
    THREADS_FOLDER,
    beside,
    decode_name,
    thread_path,
)
from treadle.thread.records import decode_record

# Counted piece by piece, so that a list never holds a whole thread in memory.
CHUNK_BYTES = 1 << 20
# A first line is a few hundred bytes; one that is longer is no header.
HEADER_BYTES = 1 << 16


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


def list_threads(data: Path) -> tuple[list[StoredThread], list[ThreadProblem]]:
    """Find every stored thread, newest first, and what had to be left out; it blocks.

    Args:
        data: the data folder; it need not exist.
    """
    found: list[StoredThread] = []
    problems: list[ThreadProblem] = []
    for path in thread_files(data, problems):
        try:
            found.append(_look_at(data, path))
        except FileNotFoundError:
            # It was deleted while we looked.
            continue
        except (OSError, ThreadUnreadable, NotOurs) as error:
            problems.append(ThreadProblem(path, str(error)))
    return sorted(found, key=lambda one: (-one.updated_ns, one.agent, one.instance)), problems


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
    with path.open("rb") as file:
        line = file.readline(HEADER_BYTES)
    try:
        header = decode_record(line).thread
    except (msgspec.MsgspecError, RecursionError):
        header = None
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


def _look_at(data: Path, path: Path) -> StoredThread:
    check_regular(path)
    agent, instance = pair_of(data, path)
    status = path.stat()
    # Most threads are held by nobody; this tells so cheaper than looking for the holder.
    may_be_held = beside(path, LOCK_SUFFIX).exists()
    return StoredThread(
        agent=agent,
        instance=instance,
        path=path,
        messages=_count_messages(path),
        updated_at=rfc3339(datetime.fromtimestamp(status.st_mtime, UTC)),
        updated_ns=status.st_mtime_ns,
        held_by=holder(path) if may_be_held else None,
    )


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
