"""What lies where a thread's own files should be, and is nothing of ours: links, folders, pipes.

Owns what may lie beside a thread. Never changes anything: who put it there may want it.

A person may lead the data folder, an agent's folder or a thread elsewhere by a link; what we make
beside a thread ourselves is private, and never written through one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import ThreadUnreadable
from treadle.thread.blobs import BLOBS_SUFFIX, blobs_folder
from treadle.thread.paths import (
    DAMAGED_SUFFIX,
    DELETING_SUFFIX,
    LOCK_SUFFIX,
    NEW_SUFFIX,
    THREADS_FOLDER,
    beside,
    decode_name,
)

# What lies beside a thread in a file, and what that holds.
_FILES = {
    DAMAGED_SUFFIX: "damaged lines of a thread should lie",
    LOCK_SUFFIX: "the lock of a thread should lie",
    NEW_SUFFIX: "a new thread is written",
    DELETING_SUFFIX: "what is left of a deleted thread should lie",
}
_BLOBS = "the folder of a thread's images and files should lie"
_BLOB = "an image or a file of a thread should lie"
_AGENT = "the threads of an agent should lie"

# How the name of such an image or file begins, also while it is written.
_BLOB_NAME = re.compile(r"\.?[0-9a-f]{64}\.")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something in the place of a file or a folder of ours.

    Args:
        path: where.
        detail: what it is, what should be there, and what to do, in words.
    """

    path: Path
    detail: str


def require_clear(thread: Path) -> None:
    """Refuse to go on with a thread beside which something strange lies.

    Args:
        thread: its file, which need not exist.

    Raises:
        ThreadUnreadable: there is something; `path` says where.
    """
    for obstacle in obstacles(thread):
        raise ThreadUnreadable(f"{obstacle.path} {obstacle.detail}", path=str(obstacle.path))


def obstacles(thread: Path) -> Iterator[Obstacle]:
    """Yield what lies beside a thread in the place of its own files; mostly nothing does.

    Args:
        thread: its file, which need not exist.
    """
    for suffix in _FILES:
        yield from _strange_file(beside(thread, suffix))
    yield from _strange_blobs(blobs_folder(thread))


def every_obstacle(data: Path) -> Iterator[Obstacle]:
    """Yield what lies in the place of files and folders of ours, whether a thread is there or not.

    Args:
        data: the data folder; it need not exist.
    """
    for folder in _listed(data / THREADS_FOLDER):
        if not folder.is_dir():
            # Anything may lie here that an agent's folder would not be called.
            if decode_name(folder.name) is not None:
                yield Obstacle(folder, _told(folder.lstat().st_mode, _AGENT))
            continue
        for path in _listed(folder):
            if path.suffix in _FILES:
                yield from _strange_file(path)
            elif path.suffix == BLOBS_SUFFIX:
                yield from _strange_blobs(path)


def is_own_file(path: Path) -> bool:
    """Whether a file that we could have made lies at a path: no link, and no folder."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_obstructed(thread: Path) -> bool:
    """Whether something lies at a thread's own path, or above it, that can never be a thread."""
    try:
        return not stat.S_ISREG(thread.stat().st_mode)
    except NotADirectoryError:
        return True
    except OSError:
        return False


def _strange_file(path: Path) -> Iterator[Obstacle]:
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        yield Obstacle(path, _told(mode, _FILES[path.suffix]))


def _strange_blobs(folder: Path) -> Iterator[Obstacle]:
    mode = _mode(folder)
    if mode is None:
        return
    if not stat.S_ISDIR(mode):
        yield Obstacle(folder, _told(mode, _BLOBS))
        return
    # A link or a pipe in there is replaced or deleted as itself; a folder cannot be.
    with os.scandir(folder) as entries:
        strange = [
            entry.name
            for entry in entries
            if _BLOB_NAME.match(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    for name in sorted(strange):
        yield Obstacle(folder / name, _told(stat.S_IFDIR, _BLOB))


def _mode(path: Path) -> int | None:
    """Return what lies at a path itself; None where nothing does, or none can tell."""
    try:
        return path.lstat().st_mode
    except OSError:
        return None


def _told(mode: int, should: str) -> str:
    if stat.S_ISLNK(mode):
        kind = "a link"
    elif stat.S_ISDIR(mode):
        kind = "a folder"
    else:
        kind = "a file" if stat.S_ISREG(mode) else "no regular file"
    return f"is {kind}, where {should}; move it away"


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # whoever lists the threads tells why
