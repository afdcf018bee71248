"""A child process that is spoken with: how it is started and stopped.

Owns private pipes, the process group, the drained standard error and the ladder that ends a
child: end of input, TERM, KILL, each with a bound. Refuses to know what a child says.

A child gets three pipes of its own and never a descriptor of ours, so nothing it does can reach
the daemon's wire. What is spoken to nobody, because a shell runs it, is a `command`.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from treadle.process.group import (
    group_is_alive,
    group_options,
    kill_group,
    terminate_group,
)

# A well-behaved child ends on end of input in milliseconds; a second covers a busy machine.
END_OF_INPUT_SECONDS = 1.0

# The same for a child that only minds signals.
TERMINATE_SECONDS = 1.0

# The kernel ends a killed process at once, unless it hangs in a driver; then we stop waiting.
KILL_SECONDS = 1.0

# The end of a traceback or of a server's last complaint; what came before it helps nobody.
STDERR_TAIL_BYTES = 8 * 1024

# The longest line that `stdout.readline` returns; whoever expects longer ones reads pieces.
LINE_LIMIT_BYTES = 64 * 1024

# One read of a drained pipe; a Linux pipe holds this much.
_DRAIN_BYTES = 64 * 1024

# What an ended child wrote last is in the pipe already; only a grandchild keeps that pipe open.
_LAST_WORDS_SECONDS = 0.2

# How often a leaderless group is looked at: there is no event for grandchildren.
_GROUP_POLL_SECONDS = 0.01

Rung = Literal["exit", "end_of_input", "terminate", "kill"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended.

    Args:
        pid: its process id.
        exit_code: what it returned, negative for a signal; None if it could not be ended.
        by: the rung that ended it; `exit` when it had ended by itself.
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

    def __init__(self, transport: asyncio.SubprocessTransport, streams: Streams) -> None:
        assert streams.stdin is not None and streams.stdout is not None
        assert streams.stderr is not None
        self.pid: int = transport.get_pid()
        self.stdin: asyncio.StreamWriter = streams.stdin
        self.stdout: asyncio.StreamReader = streams.stdout
        self._transport = transport
        self._exited = streams.exited
        self._tail = bytearray()
        self._draining = asyncio.create_task(self._drain(streams.stderr))
        self._stopping: asyncio.Task[ChildEnd] | None = None

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None
    ) -> Self:
        """Start a program in a group of its own, on private pipes.

        Args:
            argv: the program and its arguments; no shell reads them.
            env: its whole environment; nothing is added.
            cwd: its working folder, else ours.

        Raises:
            OSError: the program is not there or cannot be run.
            asyncio.CancelledError: the caller was cancelled; nothing is left running.
        """
        spawning = asyncio.create_task(_spawn(argv, env, cwd))
        try:
            return cls(*await to_the_end(spawning))
        except asyncio.CancelledError:
            if not spawning.cancelled() and spawning.exception() is None:
                await cls(*spawning.result()).stop()
            raise

    @property
    def exit_code(self) -> int | None:
        """What it returned, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        """The last of what it wrote to standard error."""
        return self._tail.decode("utf-8", "replace")

    async def wait(self) -> int:
        """Wait until it ends by itself, however long; the caller sets the bound."""
        await self._exited.wait()
        exit_code = self.exit_code
        assert exit_code is not None
        return exit_code

    async def stop(self) -> ChildEnd:
        """End it and its group: end of input, TERM, KILL, each with a bound of a second.

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
            by = await self._end()
        except asyncio.CancelledError:
            # The loop itself is going down: no time for the ladder.
            kill_group(self.pid)
            raise
        finally:
            await self._release()
        return ChildEnd(self.pid, self.exit_code, by)

    async def _end(self) -> Rung:
        if await self._is_gone(0):
            return "exit"
        self.stdin.close()
        if await self._is_gone(END_OF_INPUT_SECONDS):
            return "end_of_input"
        terminate_group(self.pid)
        if await self._is_gone(TERMINATE_SECONDS):
            return "terminate"
        await asyncio.to_thread(kill_group, self.pid)
        await self._is_gone(KILL_SECONDS)
        return "kill"

    async def _is_gone(self, within_seconds: float) -> bool:
        """Wait for the child and for what is left of its group."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self._exited.wait()
                while group_is_alive(self.pid):  # noqa: ASYNC110 - nothing tells of grandchildren
                    await asyncio.sleep(_GROUP_POLL_SECONDS)
        return self._exited.is_set() and not group_is_alive(self.pid)

    async def _release(self) -> None:
        """Let go of the pipes, whoever else still holds them."""
        try:
            await asyncio.wait({self._draining}, timeout=_LAST_WORDS_SECONDS)
        finally:
            self._draining.cancel()
            # Closing waits for what is still to be written; nobody will read it.
            if self.stdin.transport.get_write_buffer_size():
                self.stdin.transport.abort()
            self._transport.close()

    async def _drain(self, stderr: asyncio.StreamReader) -> None:
        """Read all it complains of, so that a full pipe never stops it; keep the tail.

        The task is owned by `_release`, which cancels it; cancelled, it does nothing more.
        """
        while piece := await stderr.read(_DRAIN_BYTES):
            self._tail += piece
            del self._tail[:-STDERR_TAIL_BYTES]


async def to_the_end(task: asyncio.Task[ResultT]) -> ResultT:
    """Await a bounded task to its end even if the caller is cancelled; then raise that.

    Raises:
        asyncio.CancelledError: the caller was cancelled meanwhile.
        Exception: whatever the task raised.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as caught:
            cancelled = caught
    if cancelled is not None:
        raise cancelled
    return task.result()


class Streams(SubprocessStreamProtocol):
    """asyncio's streams, with the exit as an event: its own `wait` also waits for the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=LINE_LIMIT_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Note it, for whoever waits for that alone."""
        super().process_exited()
        self.exited.set()


def _spawn(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path | None
) -> Coroutine[Any, Any, tuple[asyncio.SubprocessTransport, Streams]]:
    loop = asyncio.get_running_loop()
    return loop.subprocess_exec(
        lambda: Streams(loop),
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=dict(env),
        cwd=cwd,
        **group_options(),
    )
