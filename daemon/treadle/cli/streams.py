"""Standard streams as the commands for people find them: closed, full, unread, or not UTF-8.

Owns that any text can be printed and read, that a terminal obeys none of it, and that nothing
else can slip into their places.
Refuses to know what is printed.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from treadle.sanitise import clean


def prepare() -> None:
    """Make the streams fit for any text; call it before anything opens a file.

    A stream that was closed becomes the null device: else the next file that is opened would
    get its number, and what a child prints would land in a thread.
    Text that the terminal has no characters for is shown as escapes instead of being lost; bytes
    that are no text are read as U+FFFD.
    """
    # The system gives out the lowest free number, so each one lands in its own place.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - it lives as long as the process
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def to_json(value: Any) -> str:
    """Encode a value for standard output: readable where that is UTF-8, valid anywhere."""
    is_utf8 = codecs.lookup(sys.stdout.encoding).name == "utf-8"
    return json.dumps(value, ensure_ascii=not is_utf8)


def give_up_output() -> None:
    """Let what is still to be written vanish, so that the interpreter's end does not fail on it."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def say(text: str, *, end: str = "\n") -> None:
    """Print on standard output at once: on a terminal as `sanitise` has it, else as it is.

    What models, agents' files and names hold may be anything; a file or a pipe wants it all.
    """
    print(clean(text) if sys.stdout.isatty() else text, end=end, flush=True)


def tell(line: str) -> None:
    """Print a line on standard error; where that takes nothing either, nobody can be told."""
    with contextlib.suppress(OSError):
        print(clean(line) if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
