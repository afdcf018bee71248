"""Lines that stand in a file once, whatever of them stands there already.

Owns how those are recognised: by their bytes, at the place where they were meant to be. Refuses
to know where lines come from that may have been written before.
"""

from __future__ import annotations

import os
from pathlib import Path

from treadle.thread.files import open_private, sync, sync_folder, write_whole


def append_once(path: Path, size_bytes: int, lines: bytes) -> None:
    """Append lines behind an offset, but for what of them stands there already; it blocks.

    Args:
        path: the file; nobody else may be writing it.
        size_bytes: where they were meant to begin.
        lines: them, each with its line end.

    Raises:
        OSError: they could not be appended, and the file is as it was.
    """
    descriptor, _made = open_private(path, os.O_RDWR | os.O_APPEND)
    try:
        end = os.fstat(descriptor).st_size
        missing = _missing(descriptor, size_bytes, end, lines)
        try:
            write_whole(descriptor, missing)
            sync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def _missing(descriptor: int, size_bytes: int, end: int, lines: bytes) -> bytes:
    """Return what is to be appended so that the lines stand in the file once.

    Some of them may stand there: an earlier try, a failed write or one that hung has left them.
    """
    there = _read(descriptor, size_bytes, len(lines) + 1)
    # Ours begin with a line end where somebody else wrote before them.
    extra = there.startswith(b"\n") and not lines.startswith(b"\n")
    there = there[extra : len(lines) + extra]
    if lines.startswith(there) and size_bytes + extra + len(there) == end:
        return lines[len(there) :]
    whole = _common_lines(there, lines)
    lines = lines[whole:]
    if not size_bytes and not whole:
        # Somebody began the thread meanwhile, so that it has a first line.
        lines = lines.partition(b"\n")[2]
    ends_well = not lines or _read(descriptor, end - 1, 1) == b"\n"
    return lines if ends_well else b"\n" + lines


def _common_lines(there: bytes, lines: bytes) -> int:
    """Return the size of the whole lines that both begin with."""
    common = 0
    for one, other in zip(there.splitlines(True), lines.splitlines(True), strict=False):
        if one != other or not one.endswith(b"\n"):
            break
        common += len(one)
    return common


def _read(descriptor: int, offset: int, size_bytes: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(size_bytes)
