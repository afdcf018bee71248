"""A process that was started, and all that comes of it: what children and commands share.

Owns the start in a group of its own, with a mark and under the reaper's eyes; how long it takes
until all of it is gone; TERM and KILL. Refuses to know pipes: what is said through them, and when
it is time to end.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

from treadle.process.census import MARK_VARIABLE
from treadle.process.group import group_options
from treadle.process.hiding import hide_from_commands
from treadle.process.reaper import REAPER
from treadle.process.tree import Tree, new_mark

# The kernel ends a killed process at once, unless it hangs in a driver; then we stop waiting.
KILL_SECONDS = 1.0

# The longest line that `stdout.readline` returns; whoever expects longer ones reads pieces.
LINE_LIMIT_BYTES = 64 * 1024

# How soon, and then how often, a tree without its leader is looked at: nothing tells of
# grandchildren. Most of them are gone at once; who is not costs a look each time.
_FIRST_POLL_SECONDS = 0.01
_POLL_SECONDS = 0.08

ResultT = TypeVar("ResultT")

Spawn: TypeAlias = "Callable[[], Awaitable[tuple[asyncio.SubprocessTransport, Streams]]]"
"""Start the process, and give its pipes."""


class Streams(SubprocessStreamProtocol):
    """asyncio's streams, with events: its own `wait` waits for the pipes as well.

    Attributes:
        exited: set once the process has ended, whoever else holds its pipes.
        silent: set once nobody can write to its standard output any more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=LINE_LIMIT_BYTES, loop=loop)
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()

    def process_exited(self) -> None:
        """Note it, for whoever waits for that alone."""
        super().process_exited()
        self.exited.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note it, for whoever reads to the end."""
        super().pipe_connection_lost(fd, exc)
        if fd == 1:
            self.silent.set()


class Started:
    """A running process with its tree; whoever starts one ends it inside `ending`.

    Attributes:
        pid: its process id.
        streams: its pipes.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, streams: Streams, mark: str) -> None:
        self.pid: int = transport.get_pid()
        self.streams = streams
        self._transport = transport
        self._tree = Tree(self.pid, mark)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None,
        stdin: int,
        stderr: int,
    ) -> Self:
        """Start a program in a session and a group of its own; it writes to a pipe of ours.

        Args:
            argv: the program and its arguments.
            env: its whole environment; the mark that its tree is found by is added.
            cwd: its working folder, else ours.
            stdin: what it reads, as `subprocess` names it; never a descriptor of ours.
            stderr: where it complains; the same.

        Raises:
            OSError: the program or the folder is not there, or it cannot be run.
            asyncio.CancelledError: the caller was cancelled; nothing is left running.
        """
        loop, mark = asyncio.get_running_loop(), new_mark()
        spawn = partial(
            loop.subprocess_exec,
            partial(Streams, loop),
            *argv,
            stdin=stdin,
            stdout=PIPE,
            stderr=stderr,
            env={**env, MARK_VARIABLE: mark},
            cwd=cwd,
            **group_options(),
        )
        starting = asyncio.create_task(cls._start(spawn, mark))
        try:
            return await to_the_end(starting)
        except asyncio.CancelledError:
            if not starting.cancelled() and starting.exception() is None:
                await to_the_end(asyncio.create_task(starting.result()._undo()))
            raise

    @property
    def exit_code(self) -> int | None:
        """What it returned, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    async def is_gone(self, within_seconds: float) -> bool:
        """Wait, within a bound, for its end and for that of everything it started."""
        clock = asyncio.get_running_loop().time
        end = clock() + within_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self.streams.exited.wait()
        pause = _FIRST_POLL_SECONDS
        while self.streams.exited.is_set():
            if not await asyncio.to_thread(self._tree.is_alive):
                return True
            if (left := end - clock()) <= 0:
                break
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _POLL_SECONDS)
        return False

    async def terminate(self, within_seconds: float) -> bool:
        """Ask all of it to end; return whether it is gone within a bound."""
        await asyncio.to_thread(self._tree.terminate)
        return await self.is_gone(within_seconds)

    async def kill(self) -> bool:
        """End all of it by force; return whether it is gone."""
        await asyncio.to_thread(self._tree.kill)
        return await self.is_gone(KILL_SECONDS)

    @contextlib.asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        """Go down the ladder inside this; afterwards nobody watches over it any more.

        A caller that is cancelled in it is so because the loop itself goes down: all is killed at
        once.
        """
        try:
            yield
        except asyncio.CancelledError:
            _kill_now(self._tree)
            raise
        await asyncio.to_thread(REAPER.forget, self._tree)

    def let_go(self) -> None:
        """Close our ends of its pipes, whoever holds the others."""
        self._transport.close()

    @classmethod
    async def _start(cls, spawn: Spawn, mark: str) -> Self:
        # Its mark is told before there is a process: we may be killed right after it began.
        coming = Tree(0, mark)
        await asyncio.to_thread(_prepare, coming)
        try:
            transport, streams = await spawn()
        except asyncio.CancelledError:
            _kill_now(coming)
            raise
        except BaseException:
            REAPER.forget(coming)
            raise
        started = cls(transport, streams, mark)
        try:
            started._tree = await asyncio.to_thread(_watched, started._tree)
        except asyncio.CancelledError:
            _kill_now(started._tree)
            started.let_go()
            raise
        return started

    async def _undo(self) -> None:
        async with self.ending():
            await self.kill()
        self.let_go()


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


def _prepare(coming: Tree) -> None:
    """See to what has to be there before it begins; costs next to nothing after the first time."""
    hide_from_commands()
    REAPER.begin()
    REAPER.watch(coming)


def _kill_now(tree: Tree) -> None:
    """End a tree without the loop's help, for the loop goes down; blocks for a moment."""
    tree.kill()
    REAPER.forget(tree)


def _watched(tree: Tree) -> Tree:
    tree = Tree.of(tree.pid, tree.mark)
    REAPER.watch(tree)
    return tree
