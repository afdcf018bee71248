"""What a shared daemon prints: a file beside its socket, for whoever asks why it did not come up.

Owns that file and its bound. The log proper lies elsewhere; this is for what no log was told.
"""

from __future__ import annotations

import os

# Enough for many tracebacks, too little to fill a disk.
MOST_BYTES = 256 << 10


def open_printed(path: str) -> int:
    """Open the file for a daemon that is about to start; what has grown large is begun anew.

    Returns:
        A descriptor that appends.

    Raises:
        OSError: that cannot be done.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    bound_printed(path)
    return descriptor


def bound_printed(path: str) -> None:
    """Empty the file where it has grown large; whoever appends to it goes on at its beginning."""
    try:
        if os.lstat(path).st_size > MOST_BYTES:
            os.truncate(path, 0)
    except OSError:
        return  # there is nothing to bound, or nobody who could


def end_of_printed(path: str, size_bytes: int) -> str:
    """Return the end of what was printed; nothing where that cannot be read.

    Args:
        path: the file.
        size_bytes: how much, at most.
    """
    try:
        with open(path, "rb") as printed:
            printed.seek(max(0, printed.seek(0, os.SEEK_END) - size_bytes))
            return printed.read(size_bytes).decode(errors="replace").strip()
    except OSError:
        return ""
