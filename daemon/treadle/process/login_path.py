"""Where a person's programs are: our own PATH, and what the login shell adds to it.

A program that a desktop has started has a bare PATH, so that `npx` or `uvx` are not found. Owns
the one question to that shell, and its answer for as long as the process lives. Nothing runs
before somebody needs the answer; nothing of a profile, however noisy or stuck, gets further than
here. POSIX only: elsewhere a desktop's programs have the whole PATH. Refuses to know what is
looked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import sys
from pathlib import Path
from uuid import uuid4
from weakref import WeakKeyDictionary

from treadle.process.shell import DEFAULT_PATH, shell_environment

logger = logging.getLogger(__name__)

# Profiles take tens of milliseconds, some that start version managers a second.
ANSWER_SECONDS = 3.0

# Whatever a profile prints before the answer; one that prints more does not come to an end.
MOST_OUTPUT_BYTES = 1 << 20

# Between TERM and KILL, for a profile that is stuck.
_GRACE_SECONDS = 0.1

# One read of a pipe.
_READ_BYTES = 64 * 1024

# These take no `-l` beside other options; without it they read all but their login profile.
_NO_LOGIN_OPTION = frozenset({"csh", "tcsh"})


async def login_path() -> str:
    """Return our own PATH, and behind it what the person's login shell adds.

    The shell is asked once, within a bound; where it does not answer, our own PATH is all there
    is. Many may ask at once; one that is cancelled leaves the question to the others.
    """
    own = os.environ.get("PATH", DEFAULT_PATH if sys.platform != "win32" else "")
    return _joined(own, await _ASKED.answer())


class LoginShell:
    """The person's login shell, asked once at most."""

    def __init__(self) -> None:
        self._answer: str | None = None
        # One for each event loop that ever asks, for a lock belongs to one.
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._asking = WeakKeyDictionary()

    async def answer(self) -> str:
        """Return its PATH, empty where it has none or does not say."""
        if self._answer is None:
            loop = asyncio.get_running_loop()
            async with self._asking.setdefault(loop, asyncio.Lock()):
                if self._answer is None:
                    self._answer = await _ask()
        return self._answer


_ASKED = LoginShell()


async def _ask() -> str:
    shell = await asyncio.to_thread(_login_shell)
    if shell is None:
        return ""
    from treadle.process.command import Command

    opening, script, closing = _question()
    login = [] if Path(shell).name in _NO_LOGIN_OPTION else ["-l"]
    try:
        # Without input, in a group of its own, and without our keys.
        command = await Command.start(
            [shell, *login, "-c", script], env=shell_environment(), cwd=Path("/")
        )
    except OSError as error:
        logger.warning("the login shell %s cannot be asked for its PATH: %s", shell, error)
        return ""
    try:
        said = await _read(command.output, opening, closing)
    finally:
        await command.end(_GRACE_SECONDS)
    if said is None:
        logger.warning(
            "the login shell %s did not tell its PATH: its profile ended it, printed without end, "
            "or was not done within %g s",
            shell,
            ANSWER_SECONDS,
        )
    return said or ""


def _login_shell() -> str | None:
    """Find it; it is a file that can be run, or there is none."""
    if sys.platform == "win32":
        return None
    import pwd

    shell = os.environ.get("SHELL", "")
    if not shell:
        try:
            shell = pwd.getpwuid(os.getuid()).pw_shell
        except KeyError:
            return None
    is_there = Path(shell).is_absolute() and os.access(shell, os.X_OK) and Path(shell).is_file()
    return shell if is_there else None


def _question() -> tuple[bytes, str, bytes]:
    """Return what stands before the answer, the script, and what stands behind the answer.

    Every shell leaves what is in single quotes alone, and starts a POSIX shell, which has the
    PATH as its environment. The words are in two pieces, so that a profile that has commands
    echoed (`set -x`) does not make an answer of the question.
    """
    one, two = uuid4().hex, uuid4().hex
    printing = f'printf "%s%s:%s:%s%s" {one} {two} "$PATH" {two} {one}'
    return f"{one}{two}:".encode(), f"/bin/sh -c {shlex.quote(printing)}", f":{two}{one}".encode()


async def _read(output: asyncio.StreamReader, opening: bytes, closing: bytes) -> str | None:
    """Read until the answer is there; None where it does not come."""
    wanted = re.compile(re.escape(opening) + b"(.*?)" + re.escape(closing), re.DOTALL)
    said = bytearray()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while piece := await output.read(_READ_BYTES):
                said += piece
                if found := wanted.search(said):
                    return os.fsdecode(found[1])
                if len(said) > MOST_OUTPUT_BYTES:
                    return None
    except TimeoutError:
        pass
    return None


def _joined(own: str, more: str) -> str:
    """Put what is new behind our own; a folder that depends on where one stands is not taken."""
    known = own.split(os.pathsep)
    new = dict.fromkeys(
        folder
        for folder in more.split(os.pathsep)
        if folder not in known and Path(folder).is_absolute()
    )
    return os.pathsep.join([*([own] if own else []), *new])
