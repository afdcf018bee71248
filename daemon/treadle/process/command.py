"""A command that runs: nothing to read, one pipe for all it prints, ended with all it started.

Owns the pipe and the two rungs of its ladder: TERM, KILL. Refuses to know what it prints and how
long it may take.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from treadle.process.started import Started, to_the_end

# What is in the pipe at the end is read by then; only a stranger keeps the pipe open for longer.
_LAST_WORDS_SECONDS = 0.2

# The end of a pipeline may outlive its shell by a moment; who lives longer was left behind.
_AFTERMATH_SECONDS = 0.1


class Command:
    """A running command; whoever starts one reads `output`, and awaits `end` on every way out.

    Attributes:
        pid: its process id.
        output: what it prints, on both streams, in order.
        exited: set once it has ended itself.
        silent: set once nobody can print any more, the processes that it started included.
    """

    def __init__(self, started: Started) -> None:
        streams = started.streams
        assert streams.stdout is not None
        self.pid: int = started.pid
        self.output: asyncio.StreamReader = streams.stdout
        self.exited: asyncio.Event = streams.exited
        self.silent: asyncio.Event = streams.silent
        self._started = started
        self._ending: asyncio.Task[bool] | None = None

    @classmethod
    async def start(cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Self:
        """Start a program in a session and a group of its own.

        Args:
            argv: the program and its arguments.
            env: its whole environment; the mark that its tree is found by is added.
            cwd: its working folder.

        Raises:
            OSError: the program or the folder is not there, or it cannot be run.
            asyncio.CancelledError: the caller was cancelled; nothing is left running.
        """
        return cls(await Started.start(argv, env=env, cwd=cwd, stdin=DEVNULL, stderr=STDOUT))

    @property
    def exit_code(self) -> int | None:
        """What it returned, negative for a signal; None while it runs."""
        return self._started.exit_code

    async def has_left_any(self) -> bool:
        """Tell, once it has ended, whether something that it started goes on without it."""
        return not await self._started.is_gone(_AFTERMATH_SECONDS)

    async def end(self, grace_seconds: float) -> bool:
        """End it with all it started, at once and in any case, and let go of the pipe.

        May be called any number of times. A caller that is cancelled meanwhile is cancelled once
        it has ended.

        Args:
            grace_seconds: between TERM and KILL.

        Returns:
            Whether all of it is gone.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(grace_seconds))
        return await to_the_end(self._ending)

    async def _end(self, grace_seconds: float) -> bool:
        started = self._started
        try:
            async with started.ending():
                return (
                    await started.is_gone(0)
                    or await started.terminate(grace_seconds)
                    or await started.kill()
                )
        finally:
            await self._release()

    async def _release(self) -> None:
        """Let go of the pipe, whoever else still holds it."""
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self.silent.wait()
        except TimeoutError:
            pass
        finally:
            self._started.let_go()
