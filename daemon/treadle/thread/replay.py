"""Reading a thread file: everything that can be read, and a report of what could not.

Changes nothing on disk, so it needs no lock. What it reads is told by `loaded`, and how by
`reader` and `lines`.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

from treadle.thread.lines import opened
from treadle.thread.loaded import Loaded
from treadle.thread.reader import Reader

# From here on the collector's walks over what is being built cost more than they could free.
BULK_BYTES = 1 << 20


def load(path: Path) -> Loaded:
    """Read a thread file; a missing or empty one is a new thread.

    Args:
        path: the file; somebody may be writing it meanwhile.

    Raises:
        ThreadUnreadable: there is something, and it cannot be opened.
    """
    return _read(path, Reader())


def skim(path: Path) -> Loaded:
    """Read a thread file's records, and where its messages are, without decoding those.

    A file that has lost some of them is looked into, so that the others have their ordinals.

    Raises:
        ThreadUnreadable: there is something, and it cannot be opened.
    """
    reader = Reader(decodes=False)
    loaded = _read(path, reader)
    return _read(path, Reader(keeps=False)) if reader.is_doubtful else loaded


def load_end(path: Path, size_bytes: int) -> Loaded:
    """Read the last part of a thread file, for a look at one that may be large.

    Args:
        path: the file.
        size_bytes: how much of it; a line that begins before that is left out.

    Raises:
        ThreadUnreadable: it cannot be opened.
    """
    with opened(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - size_bytes)
        file.seek(start)
        return Reader().read(file, start + len(file.readline()) if start else 0)


@contextlib.contextmanager
def collector_off(wanted: bool) -> Iterator[None]:
    """Keep the garbage collector from walking over a large thread again and again."""
    if not (wanted and gc.isenabled()):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read(path: Path, reader: Reader) -> Loaded:
    try:
        with opened(path) as file, collector_off(os.fstat(file.fileno()).st_size >= BULK_BYTES):
            return reader.read(file)
    except FileNotFoundError:
        return Loaded()
