"""A child process that is spoken with: how it is started and stopped.

Owns private pipes, the drained standard error and the ladder that ends a child: end of input,
TERM, KILL, each with a bound. Refuses to know what a child says.

A child gets three pipes of its own and never a descriptor of ours, so nothing it does can reach
the daemon's wire. What is spoken to nobody, because a shell runs it, is a `command`; what becomes
of both, whatever they start, is `started`'s.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from treadle.process.started import Started, to_the_end

__all__ = ["STDERR_TAIL_BYTES", "Child", "ChildEnd", "Rung", "to_the_end"]

# A well-behaved child ends on end of input, or at least on TERM, in milliseconds; a second each
# covers a busy machine.
RUNG_SECONDS = 1.0

# The end of a traceback or of a server's last complaint; what came before it helps nobody.
STDERR_TAIL_BYTES = 8 * 1024

# One read of a drained pipe; a Linux pipe holds this much.
_DRAIN_BYTES = 64 * 1024

# What an ended child wrote last is in the pipe already; only a stranger keeps that pipe open.
_LAST_WORDS_SECONDS = 0.2

Rung = Literal["exit", "end_of_input", "terminate", "kill"]


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended.

    Args:
        pid: its process id.
        exit_code: what it returned, negative for a signal; None if it could not be ended.
        by: the rung that ended it with all it started; `exit` when it had ended by itself.
    """

    pid: int
    exit_code: int | None
    by: Rung


class Child:
    """A running child; whoever starts one awaits `stop` on every way out.

    >>> child = await Child.start([sys.executable, "server.py"], env={"PATH": "/usr/bin"})
    >>> line = await child.stdout.readline()
    >>> await child.stop()
    """

    def __init__(self, started: Started, rung_seconds: float) -> None:
        streams = started.streams
        assert streams.stdin is not None and streams.stdout is not None
        assert streams.stderr is not None
        self.pid: int = started.pid
        self.stdin: asyncio.StreamWriter = streams.stdin
        self.stdout: asyncio.StreamReader = streams.stdout
        self._started = started
        self._rung_seconds = rung_seconds
        self._tail = bytearray()
        self._draining = asyncio.create_task(self._drain(streams.stderr))
        self._stopping: asyncio.Task[ChildEnd] | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        rung_seconds: float = RUNG_SECONDS,
    ) -> Self:
        """Start a program in a group of its own, on private pipes.

        Args:
            argv: the program and its arguments; no shell reads them.
            env: its whole environment; the mark that its tree is found by is added.
            cwd: its working folder, else ours.
            rung_seconds: how long `stop` waits after the end of its input, and again after TERM.

        Raises:
            OSError: the program is not there or cannot be run.
            asyncio.CancelledError: the caller was cancelled; nothing is left running.
        """
        started = await Started.start(argv, env=env, cwd=cwd, stdin=PIPE, stderr=PIPE)
        return cls(started, rung_seconds)

    @property
    def exit_code(self) -> int | None:
        """What it returned, negative for a signal; None while it runs."""
        return self._started.exit_code

    @property
    def stderr_tail(self) -> str:
        """The last of what it wrote to standard error."""
        return self._tail.decode("utf-8", "replace")

    async def wait(self) -> int:
        """Wait until it ends by itself, however long; the caller sets the bound.

        What it has started may go on, and hold its pipes: this does not wait for that.
        """
        await self._started.streams.exited.wait()
        exit_code = self.exit_code
        assert exit_code is not None
        return exit_code

    async def stop(self) -> ChildEnd:
        """End it with all it started: end of input, TERM, KILL, each with a bound.

        May be called any number of times, by several tasks. A caller that is cancelled while
        it waits is cancelled once the child has ended: clean-up is never cut short.

        Returns:
            How it ended.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._climb_down())
        return await to_the_end(self._stopping)

    async def _climb_down(self) -> ChildEnd:
        try:
            async with self._started.ending():
                by = await self._end()
        finally:
            await self._release()
        return ChildEnd(self.pid, self.exit_code, by)

    async def _end(self) -> Rung:
        if await self._started.is_gone(0):
            return "exit"
        self.stdin.close()
        if await self._started.is_gone(self._rung_seconds):
            return "end_of_input"
        if await self._started.terminate(self._rung_seconds):
            return "terminate"
        await self._started.kill()
        return "kill"

    async def _release(self) -> None:
        """Let go of the pipes, whoever else still holds them."""
        try:
            await asyncio.wait({self._draining}, timeout=_LAST_WORDS_SECONDS)
        finally:
            self._draining.cancel()
            # Closing waits for what is still to be written; nobody will read it.
            if self.stdin.transport.get_write_buffer_size():
                self.stdin.transport.abort()
            self._started.let_go()

    async def _drain(self, stderr: asyncio.StreamReader) -> None:
        """Read all it complains of, so that a full pipe never stops it; keep the tail.

        The task is owned by `_release`, which cancels it; cancelled, it does nothing more.
        """
        while piece := await stderr.read(_DRAIN_BYTES):
            self._tail += piece
            del self._tail[:-STDERR_TAIL_BYTES]
