"""The process's own stdin and stdout, taken away from everything but the wire.

Owns descriptors 0, 1 and 2 at start. Refuses to know what travels on them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO, cast

STDIN, STDOUT, STDERR = 0, 1, 2


def take_stdio() -> tuple[int, int]:
    """Move the wire to private descriptors, so that nothing else can read or write it.

    Afterwards descriptor 0 is the null device and 1 is stderr, in this process and in its
    children: what C code, a child, a warning or an exit handler prints is no part of the wire.
    A descriptor that was closed at start counts as the null device: a closed stdin is at its
    end at once, what is written to a closed stdout vanishes, and so does what is printed when
    stderr is closed or is the wire itself (`2>&1` into a pipe).

    Contract: called once, before anything opens a file, for that could be given the number of
    a closed descriptor; may block on nothing.

    Returns:
        The descriptor to read the client from and the one to write to it, not inheritable and
        in binary mode. Whether they block is left as the parent set it: it may share them.
    """
    null = _open_closed_ones()
    wire = (_private(STDIN), _private(STDOUT))
    if _is_same_pipe(STDOUT, STDERR):
        os.dup2(null, STDERR)
    os.dup2(null, STDIN)
    os.dup2(STDERR, STDOUT)
    os.close(null)
    _rebind()
    return wire


def _open_closed_ones() -> int:
    """Open the null device in every free place up to stderr, and return one more of it."""
    # The system gives out the lowest free number, so the free ones are filled in order.
    while (null := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(null, True)
    return null


def _private(descriptor: int) -> int:
    copy = os.dup(descriptor)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(copy, os.O_BINARY)
    return copy


def _is_same_pipe(one: int, other: int) -> bool:
    """Whether both are one stream of bytes; a terminal, which shows everything, does not count."""
    first, second = os.fstat(one), os.fstat(other)
    # Windows knows pipes by no number, so two of them can not be told apart.
    is_known = first.st_ino != 0
    return is_known and os.path.samestat(first, second) and not os.isatty(one)


def _rebind() -> None:
    """Make Python's own objects agree with the descriptors."""
    if sys.stdout is not None:
        # What was printed before we came still waits in the buffer; it goes to stderr now.
        # A stderr that nobody reads any more is no reason not to start.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
    if sys.stderr is None:
        sys.stderr = _text_of(STDERR, "w")
    sys.stdout = sys.stderr
    sys.stdin = _text_of(STDIN, "r")


def _text_of(descriptor: int, mode: str) -> TextIO:
    text = open(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - it lives as long as the process
    return cast(TextIO, text)
