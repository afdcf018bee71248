"""A command that runs: nothing to read, one pipe for all it prints, ended with all it started.

Owns the pipe and the two rungs of its ladder: TERM, KILL. Refuses to know what it prints and how
long it may take.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from treadle.process.child import KILL_SECONDS, Streams, to_the_end
from treadle.process.group import group_options, kill_group
from treadle.process.hiding import hide_from_commands
from treadle.process.reaper import REAPER
from treadle.process.tree import MARK_VARIABLE, Tree, new_mark

# How often a tree is looked at while it is to end: nothing tells of grandchildren.
_POLL_SECONDS = 0.02

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

    def __init__(
        self, transport: asyncio.SubprocessTransport, streams: _Streams, mark: str
    ) -> None:
        assert streams.stdout is not None
        self.pid: int = transport.get_pid()
        self.output: asyncio.StreamReader = streams.stdout
        self.exited: asyncio.Event = streams.exited
        self.silent: asyncio.Event = streams.silent
        self._transport = transport
        self._tree = Tree.of(self.pid, mark)
        REAPER.watch(self._tree)
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
        mark = new_mark()
        await asyncio.to_thread(_prepare)
        spawning = asyncio.create_task(_spawn(argv, {**env, MARK_VARIABLE: mark}, cwd))
        try:
            return cls(*await to_the_end(spawning), mark)
        except asyncio.CancelledError:
            if not spawning.cancelled() and spawning.exception() is None:
                await cls(*spawning.result(), mark).end(0)
            raise

    @property
    def exit_code(self) -> int | None:
        """What it returned, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    async def has_left_any(self) -> bool:
        """Tell, once it has ended, whether something that it started goes on without it."""
        return not await self._is_gone(_AFTERMATH_SECONDS)

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
        try:
            if await self._is_gone(0):
                return True
            await asyncio.to_thread(self._tree.terminate)
            if await self._is_gone(grace_seconds):
                return True
            await asyncio.to_thread(self._tree.kill)
            return await self._is_gone(KILL_SECONDS)
        except asyncio.CancelledError:
            # The loop itself is going down: no time for the ladder.
            kill_group(self.pid)
            raise
        finally:
            REAPER.forget(self._tree)
            await self._release()

    async def _release(self) -> None:
        """Let go of the pipe, whoever else still holds it."""
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self.silent.wait()
        except TimeoutError:
            pass
        finally:
            self._transport.close()

    async def _is_gone(self, within_seconds: float) -> bool:
        """Wait, within a bound, for it and for everything it started."""
        clock = asyncio.get_running_loop().time
        end = clock() + within_seconds
        while True:
            if self.exited.is_set() and not await asyncio.to_thread(self._tree.is_alive):
                return True
            if clock() >= end:
                return False
            await asyncio.sleep(_POLL_SECONDS)


class _Streams(Streams):
    """The pipe's end as an event as well."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.silent = asyncio.Event()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self.silent.set()


def _prepare() -> None:
    """See to what has to be there before the first command; later it costs next to nothing."""
    hide_from_commands()
    REAPER.begin()


def _spawn(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path
) -> Coroutine[Any, Any, tuple[asyncio.SubprocessTransport, _Streams]]:
    loop = asyncio.get_running_loop()
    return loop.subprocess_exec(
        lambda: _Streams(loop),
        *argv,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        env=env,
        cwd=cwd,
        **group_options(),
    )
