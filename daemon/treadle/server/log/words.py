"""What a line of the log may hold: never a payload, never a secret, nothing a terminal obeys.

Owns what is left out. Refuses to know where lines go.

An exception that nobody foresaw may quote what was said to an agent, so of any exception the type
and the frames are told, and the text only where it is ours and speaks of this machine.
What another library says is told as its template, or by its place in that library's source.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from types import TracebackType

from treadle.errors import (
    InvalidAgent,
    NoModel,
    RequestFailed,
    StorageDegraded,
    ThreadLocked,
    ThreadUnreadable,
    TreadleError,
)
from treadle.secrets import Secrets, known

# Longer lines are a path or a list gone wild; a log is read by people.
MAX_LINE_CHARACTERS = 4000

# The innermost frames tell what happened; a recursion that ran away has a thousand.
MAX_FRAMES = 40

# A chain of causes, or a group, that is longer says nothing more.
MAX_ERRORS = 8


def is_ours(record: logging.LogRecord) -> bool:
    """Whether one of our own modules logged this."""
    return record.name == "treadle" or record.name.startswith("treadle.")


def told(record: logging.LogRecord) -> list[str]:
    """Return what a record says: its message, then its exception; secrets are still in it."""
    lines = [_message(record) if is_ours(record) else _foreign(record)]
    if record.exc_info and record.exc_info[1] is not None:
        lines += _trace(record.exc_info[1])
    return lines


def named(error: BaseException) -> str:
    """Return an exception's name, and its text where that cannot quote a payload.

    Only some errors of ours, and what the system says of a call, are such.
    """
    name = type(error).__name__
    if isinstance(error, _OF_THE_MACHINE):
        return f"{name}: {error.message}"
    if isinstance(error, TreadleError):
        return f"{name} ({outcome(error)})"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name}: {os.strerror(error.errno)}"
    return name


def outcome(error: TreadleError) -> str:
    """Return what kind of failure an error is: its reason, else its code."""
    return error.reason if isinstance(error, RequestFailed) else str(error.code)


def secrets() -> Secrets:
    """Return what no line may show: every secret, and whatever else a variable's name calls one.

    A log is to be sent to strangers, and loses nothing by a word too much.
    """
    return known(*filter(_HOLDS_A_KEY.search, os.environ))


def safe_line(line: str, hidden: Secrets) -> str:
    """Return a line without secrets, without what a terminal would obey, and not too long."""
    line = _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], hidden.redact(line))
    return line if len(line) <= MAX_LINE_CHARACTERS else line[:MAX_LINE_CHARACTERS] + "…"


def time_of(at: float) -> str:
    """Return a moment as RFC 3339 in UTC, with milliseconds."""
    seconds, fraction = divmod(at, 1)
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{clock}.{int(fraction * 1000):03d}Z"


# Errors whose words name files, processes and settings, and never what was said.
_OF_THE_MACHINE = (ThreadLocked, ThreadUnreadable, StorageDegraded, NoModel, InvalidAgent)

# How people name variables that hold keys; one too many costs a word of the log.
_HOLDS_A_KEY = re.compile(r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET)S?$|PASSWORD|PASSWD", re.IGNORECASE)

# C0, DEL, C1, Unicode's line ends, and what turns the direction of text around.
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _message(record: logging.LogRecord) -> str:
    """Return our own message; an exception among its arguments is told by its name."""
    template = str(_quiet(record.msg))
    if not record.args:
        return template
    if isinstance(record.args, tuple):
        return template % tuple(map(_quiet, record.args))
    return template % {name: _quiet(value) for name, value in record.args.items()}


def _foreign(record: logging.LogRecord) -> str:
    """Tell what another library says without telling what it says it of."""
    place = f"{record.filename}:{record.lineno}"
    # A message without arguments was put together by the library itself, out of anything.
    template = f": {record.msg}" if record.args and isinstance(record.msg, str) else ""
    return f"{record.name} ({place}){template}"


class _Named:
    """Stands for an exception in a message, however the template shows it."""

    def __init__(self, error: BaseException) -> None:
        self._name = named(error)

    def __repr__(self) -> str:
        return self._name


def _quiet(value: object) -> object:
    return _Named(value) if isinstance(value, BaseException) else value


def _trace(error: BaseException) -> Iterator[str]:
    """Yield an exception's frames and name, then those of what led to it."""
    left = [("", error)]
    seen: set[int] = set()
    while left and len(seen) < MAX_ERRORS:
        link, error = left.pop(0)
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield f"{link}{named(error)}"
        yield from _frames(error.__traceback__)
        left += [("caused by ", each) for each in _behind(error)]


def _behind(error: BaseException) -> list[BaseException]:
    inner = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [*inner, *([cause] if cause is not None else [])]


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    """Yield where each frame stood, outermost first; source lines are left in their files."""
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"  {code.co_filename}:{traceback.tb_lineno} in {code.co_qualname}")
        traceback = traceback.tb_next
    if len(frames) > MAX_FRAMES:
        yield f"  … {len(frames) - MAX_FRAMES} frames"
    yield from frames[-MAX_FRAMES:]
