"""The first line of a thread's file, read without the rest."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import BinaryIO

from treadle.thread.lines import UNREADABLE
from treadle.thread.records import ThreadRecord, decode_record

# A first line is a few hundred bytes; one that is longer is no header.
_HEADER_BYTES = 1 << 16


def read_header(path: Path) -> ThreadRecord | None:
    """Return what a thread's first line says; None where it says nothing. It blocks.

    Raises:
        OSError: the file cannot be read.
    """
    # Asked first: a pipe that nobody writes to would hold whoever opens it.
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    with path.open("rb") as file:
        return header_of(file)


def header_of(file: BinaryIO) -> ThreadRecord | None:
    """Return what the first line of an open file says; None where it says nothing.

    Raises:
        OSError: the file cannot be read.
    """
    file.seek(0)
    try:
        return decode_record(file.readline(_HEADER_BYTES)).thread
    except UNREADABLE:
        return None
