"""The commands of one session: those that a call waits for, and jobs in the background.

Owns how long a command lives: no longer than its call, or, in the background, than its session.
Refuses to know who may start one, and what a model is told of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from treadle.process.child import to_the_end
from treadle.process.command import Command
from treadle.process.shell import shell_argv, shell_environment
from treadle.tools.commands.capture import Capture
from treadle.tools.spill import Spill

# Jobs that run at the same time; whoever needs more has forgotten some.
MOST_JOBS = 8
# Jobs that have ended are kept, to be looked at; the oldest go first.
KEPT_ENDED_JOBS = 16

# A command is to be gone at once when its turn is cancelled; this is for what it has to tidy.
GRACE_SECONDS = 0.2

# A shell that has ended and what it left: its pipe is read this long, for whoever waits for it.
HELD_OPEN_SECONDS = 1.0

# What was printed at the very end goes to a disk that may be slow.
_READ_OUT_SECONDS = 2.0

# A job whose shell has ended is looked at this often: nothing tells of grandchildren.
_LOOK_SECONDS = 1.0

# One read of its pipe; a Linux pipe holds this much.
_READ_BYTES = 64 * 1024

Cause: TypeAlias = Literal["exit", "stopped", "timeout"]


class CannotRun(Exception):
    """A command cannot be started now; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a command ended.

    Args:
        pid: its shell's process id.
        command: what it was.
        exit_code: what its shell returned, negative for a signal; None if it could not be ended.
        cause: what ended it: itself, somebody, its time-out.
    """

    pid: int
    command: str
    exit_code: int | None
    cause: Cause


class Job:
    """One command, from its start to its end; `Jobs` makes them.

    Attributes:
        name: what a model calls it by; empty where its call waits for it.
        command: what it is.
        pid: its shell's process id.
        capture: what it prints.
        looked: how much of that a model has seen of a job.
        left_any: its shell had ended and something it had started went on.
        is_gone: nothing of it is left, once it has ended.
    """

    def __init__(
        self,
        name: str,
        command: str,
        running: Command,
        capture: Capture,
        timeout_seconds: float | None,
    ) -> None:
        self.name = name
        self.command = command
        self.pid = running.pid
        self.capture = capture
        self.looked = 0
        self.left_any = False
        self.is_gone = False
        self._running = running
        self._timeout_seconds = timeout_seconds
        self._began = time.monotonic()
        self._ended: float | None = None
        self._cause: Cause = "exit"
        self._grace_seconds = GRACE_SECONDS
        self._stopping = asyncio.Event()
        self._life = asyncio.create_task(self._live(), name=f"command {running.pid}")

    @property
    def end(self) -> JobEnd | None:
        """How it ended; None while it runs."""
        if self._ended is None:
            return None
        return JobEnd(self.pid, self.command, self._running.exit_code, self._cause)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (self._ended or time.monotonic()) - self._began

    async def wait(self, seconds: float | None) -> bool:
        """Wait for its end, within a bound; return whether it has ended."""
        await asyncio.wait({self._life}, timeout=seconds)
        return self._life.done()

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """End it with all it started; safe to call at any time.

        A caller that is cancelled meanwhile is cancelled once it has ended.
        """
        if not self._stopping.is_set() and not self._life.done():
            self._grace_seconds = grace_seconds
            self._stopping.set()
        await to_the_end(self._life)

    async def _live(self) -> None:
        """See to it from its start to its end; the only one that ends it."""
        reading = asyncio.create_task(self._read())
        over = asyncio.create_task(self._until_over())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                {over, stopping},
                timeout=self._timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not over.done():
                self._cause = "stopped" if stopping.done() else "timeout"
        finally:
            over.cancel()
            stopping.cancel()
            self.is_gone = await self._running.end(self._grace_seconds)
            await asyncio.wait({reading}, timeout=_READ_OUT_SECONDS)
            reading.cancel()
            await asyncio.gather(over, stopping, reading, return_exceptions=True)
            await self.capture.end()
            self._ended = time.monotonic()

    async def _read(self) -> None:
        while piece := await self._running.output.read(_READ_BYTES):
            await self.capture.take(piece)

    async def _until_over(self) -> None:
        """Wait until it has ended by itself, as far as somebody waits for that."""
        running = self._running
        await running.exited.wait()
        if not self.name:
            silent = asyncio.create_task(running.silent.wait())
            await asyncio.wait({silent}, timeout=HELD_OPEN_SECONDS)
            silent.cancel()
            self.left_any = await running.has_left_any()
            return
        await running.silent.wait()
        while await running.has_left_any():  # noqa: ASYNC110 - nothing tells of grandchildren
            await asyncio.sleep(_LOOK_SECONDS)


class Jobs:
    """The commands of one session.

    Args:
        spill: where their output is kept.
    """

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._waited_for: list[Job] = []
        self._jobs: dict[int, Job] = {}  # by the number in their name
        self._starting = 0
        self._count = 0
        self._is_closed = False

    @property
    def all(self) -> tuple[Job, ...]:
        """The jobs that run in the background, and the last that have ended, by their numbers."""
        # Of jobs that begin at once any may have started first.
        return tuple(self._jobs[number] for number in sorted(self._jobs))

    @property
    def running(self) -> tuple[Job, ...]:
        """The jobs that run in the background, by their numbers."""
        return tuple(job for job in self.all if job.end is None)

    def find(self, name: str) -> Job | None:
        """Return a job by its name."""
        return next((job for job in self._jobs.values() if job.name == name), None)

    async def run(
        self, command: str, folder: Path, timeout_seconds: float, on_line: Callable[[str], None]
    ) -> Job:
        """Start a command that its caller waits for, and stops on every way out.

        Args:
            command: for the shell.
            folder: where.
            timeout_seconds: it is stopped after this.
            on_line: hears the last line it has printed, now and then.

        Raises:
            CannotRun: the session is closed.
            OSError: it cannot be started.
        """
        job = await self._start("", command, folder, timeout_seconds, on_line)
        self._waited_for = [each for each in self._waited_for if each.end is None]
        self._waited_for.append(job)
        return job

    async def begin(self, command: str, folder: Path, timeout_seconds: float | None) -> Job:
        """Start a job, which goes on until it is stopped or the session is closed.

        Args:
            command: for the shell.
            folder: where.
            timeout_seconds: it is stopped after this, if at all.

        Raises:
            CannotRun: there are too many, or the session is closed.
            OSError: it cannot be started.
        """
        if len(self.running) + self._starting >= MOST_JOBS:
            names = ", ".join(job.name for job in self.running)
            raise CannotRun(
                f"There are {MOST_JOBS} background jobs, and there can be no more. Stop one "
                f"of them first: {names}."
            )
        self._count += 1
        self._starting += 1
        number = self._count
        try:
            name = f"job-{number}"
            job = await self._start(name, command, folder, timeout_seconds, lambda _: None)
        finally:
            self._starting -= 1
        self._jobs[number] = job
        ended = [each for each in sorted(self._jobs) if self._jobs[each].end is not None]
        for each in ended[:-KEPT_ENDED_JOBS]:
            del self._jobs[each]
        return job

    async def close(self) -> list[JobEnd]:
        """Stop all of them; return how those ended that ran. Safe to call twice."""
        self._is_closed = True
        stopped = [job for job in (*self.all, *self._waited_for) if job.end is None]
        await asyncio.gather(*(job.stop() for job in stopped), return_exceptions=True)
        return [job.end for job in stopped if job.end is not None]

    async def _start(
        self,
        name: str,
        command: str,
        folder: Path,
        timeout_seconds: float | None,
        on_line: Callable[[str], None],
    ) -> Job:
        """Start a command; what a close has overtaken is stopped again.

        Raises:
            CannotRun: the session is closed.
            OSError: it cannot be started.
        """
        self._require_open()
        running = await Command.start(shell_argv(command), env=shell_environment(), cwd=folder)
        job = Job(name, command, running, Capture(self._spill, on_line), timeout_seconds)
        if self._is_closed:
            await job.stop()
            self._require_open()
        return job

    def _require_open(self) -> None:
        if self._is_closed:
            raise CannotRun("The session is closed, so nothing is started.")
