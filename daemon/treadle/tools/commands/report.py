"""What a model is told of a command: what it printed, how it ended, what it does now.

Owns the words. Refuses to know which tool tells them.
"""

from __future__ import annotations

import os
import signal

from treadle.process.shell import DEFAULT_PATH
from treadle.tools.commands.running import Job, JobEnd
from treadle.tools.tool import ToolError

# What shells return for a command that they cannot find: POSIX, 2.8.2.
_NOT_FOUND = 127
# What they return for one that they cannot run: the same place.
_NOT_RUNNABLE = 126
# What they add to the number of the signal that ended a command: the same place.
_SIGNALLED = 128


def result(job: Job) -> str:
    """Return what a job that has ended has printed and how it ended.

    Raises:
        ToolError: with the same, where it did not end well.
    """
    end = job.end
    assert end is not None, "it has ended"
    text = f"{news(job)}\n{_ending(job, end)}"
    if end.cause != "exit" or end.exit_code != 0:
        raise ToolError(text)
    return text


def news(job: Job) -> str:
    """Return what a command has printed since this was asked last."""
    printed = job.capture.printed(job.looked)
    is_first = job.looked == 0
    job.looked = printed.end
    text = printed.text.rstrip("\n")
    lines = [line for line in (printed.cut, text) if line]
    return "\n".join(lines) or ("(no output)" if is_first else "(no new output)")


def standing(job: Job) -> str:
    """Return one line on what a job does now."""
    state = _ending(job, job.end) if job.end else f"[runs for {_duration(job.seconds)}]"
    return f"{job.name} {state} {' '.join(job.command.split())}"


def _ending(job: Job, end: JobEnd) -> str:
    """Return one line on how a command ended."""
    words = [f"{_how(end)} after {_duration(job.seconds)}"]
    if job.left_any:
        words.append(
            "what it had left running was stopped; run what is to go on with background: true"
        )
    if not job.is_gone:
        words.append("some of its processes could not be stopped")
    return f"[{'; '.join(words)}]"


def _duration(seconds: float) -> str:
    """Say how long something took."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def _how(end: JobEnd) -> str:
    """Say what ended a command."""
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
    """Say what an exit code means to every shell; nothing for those of the program's own."""
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
