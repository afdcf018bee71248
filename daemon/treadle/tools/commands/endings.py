"""How a command ended, in words that a model can act on."""

from __future__ import annotations

import os
import signal

from treadle.process.shell import DEFAULT_PATH
from treadle.tools.commands.running import Job, JobEnd

# What shells return for a command that they cannot find, or cannot run: POSIX, 2.8.2.
_NOT_FOUND = 127
_NOT_RUNNABLE = 126
# What they add to the number of the signal that ended a command: the same place.
_SIGNALLED = 128


def ending(job: Job, end: JobEnd) -> str:
    """Return one line on how a command ended."""
    words = [f"{_how(end)} after {duration(job.seconds)}"]
    if job.left_any:
        words.append(
            "what it had left running was stopped; run what is to go on with background: true"
        )
    if not job.is_gone:
        words.append("some of its processes could not be stopped")
    return f"[{'; '.join(words)}]"


def duration(seconds: float) -> str:
    """Say how long something took."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def _how(end: JobEnd) -> str:
    if end.cause == "timeout":
        return "time is up: it was stopped with all it had started,"
    if end.cause == "stopped":
        return "stopped with all it had started,"
    if end.exit_code is None:
        return "it could not be stopped"
    if end.exit_code < 0:
        return f"ended by {_signal(-end.exit_code)}"
    return f"exit code {end.exit_code}{_meaning(end.exit_code)}"


def _meaning(exit_code: int) -> str:
    if exit_code == _NOT_FOUND:
        return f" (command not found; PATH is {os.environ.get('PATH') or DEFAULT_PATH})"
    if exit_code == _NOT_RUNNABLE:
        return " (a command was found and cannot be run)"
    if exit_code > _SIGNALLED and (named := _signal(exit_code - _SIGNALLED)):
        return f" (a command in it was ended by {named})"
    return ""


def _signal(number: int) -> str:
    """Name a signal; empty where there is none of this number."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    return f"{name} ({signal.strsignal(number)})"
