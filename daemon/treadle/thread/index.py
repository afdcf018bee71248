"""Where the messages of a thread's file lie, remembered for the files that were looked at last.

Owns for how long that may be believed: as long as the file is the same one and has only grown.
So whoever turns the pages of a long thread has it looked through once.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from treadle.thread.lines import digest_of
from treadle.thread.loaded import Loaded
from treadle.thread.reader import Reader

# One reader turns the pages of one thread at a time; each million messages costs 16 MB.
REMEMBERED_FILES = 4
# A file of more bad lines is not remembered: each costs more than a message.
REMEMBERED_BAD_LINES = 1000
# So much of both ends tells whether what a larger file has before its new end is what it had.
EDGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was looked through.

    Args:
        identity: its device and number.
        size_bytes: how large it was.
        changed_ns: when it was last written.
        end: where its last line end was.
        edges: a digest of its beginning and of what is before `end`.
        lines: what was found up to there; never changed.
    """

    identity: tuple[int, int]
    size_bytes: int
    changed_ns: int
    end: int
    edges: str
    lines: Reader


class Index:
    """Finds messages in files, and remembers what it found.

    Args:
        capacity: how many files it remembers.

    Contract: several threads may use it at once; what it returns is to be read only.
    """

    def __init__(self, capacity: int = REMEMBERED_FILES) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._seen: OrderedDict[Path, _Seen] = OrderedDict()

    def find(self, path: Path, file: BinaryIO) -> Loaded:
        """Find where messages lie in a file, as `skim` does; it blocks.

        Args:
            path: where the file is.
            file: the same, opened.

        Raises:
            OSError: it cannot be read.
        """
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        with self._lock:
            seen = self._seen.get(path)
        if seen is not None and not _is_same(seen, status, file):
            seen = None
        if seen is None or seen.size_bytes != status.st_size:
            lines = seen.lines.copy() if seen else Reader(decodes=False)
            end = lines.read_lines(file, seen.end if seen else 0)
            if lines.is_doubtful:
                lines = Reader(keeps=False)
                end = lines.read_lines(file, 0)
            edges = _edges(file, end)
            seen = _Seen(identity, status.st_size, status.st_mtime_ns, end, edges, lines)
        self._remember(path, seen)
        # What is behind the last line end may become a line of another kind.
        return (seen.lines.copy() if seen.lines.has_tail else seen.lines).finish(seen.end)

    def _remember(self, path: Path, seen: _Seen) -> None:
        with self._lock:
            self._seen.pop(path, None)
            if seen.lines.bad_count <= REMEMBERED_BAD_LINES:
                self._seen[path] = seen
            while len(self._seen) > self._capacity:
                self._seen.popitem(last=False)


def _is_same(seen: _Seen, status: os.stat_result, file: BinaryIO) -> bool:
    """Tell whether a file holds what it held, at most with more behind it."""
    if seen.identity != (status.st_dev, status.st_ino) or status.st_size < seen.size_bytes:
        return False
    if status.st_size == seen.size_bytes:
        return status.st_mtime_ns == seen.changed_ns
    return status.st_size >= seen.end and _edges(file, seen.end) == seen.edges


def _edges(file: BinaryIO, end: int) -> str:
    file.seek(0)
    data = file.read(min(end, EDGE_BYTES))
    file.seek(max(0, end - EDGE_BYTES))
    return digest_of(data + file.read(min(end, EDGE_BYTES)))
