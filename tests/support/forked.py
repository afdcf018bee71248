"""Daemons that start in milliseconds: forks of one process that has loaded everything.

Such a daemon is a process of its own with pipes of its own, which runs `treadle serve` from its
first line; only the loading of modules is done once for all of them. For tests that need
hundreds. Where a system cannot fork, each daemon is started in the ordinary way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from support.daemon import SERVE
from support.waiting import PATIENCE_SECONDS

CAN_FORK = hasattr(os, "fork") and hasattr(socket, "send_fds")

# The process that forks. It is told to start a daemon, or to see one's end, and answers each.
_PARENT = str(Path(__file__).with_name("forking.py"))
# An answer is a number in a line.
_ANSWER_BYTES = 100


class Process(Protocol):
    """What `support.daemon.Daemon` needs of a process."""

    pid: int
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None

    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


class Starter(Protocol):
    """Starts a `treadle serve` with further arguments and variables."""

    async def __call__(self, *arguments: str, env: Mapping[str, str]) -> Any: ...


@contextlib.contextmanager
def starter() -> Iterator[Starter]:
    """Provide the fastest way to start daemons; whatever it started is gone at the end."""
    if not CAN_FORK:
        yield _start_anew
        return
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_SECONDS)
    with ours, theirs:
        command = [sys.executable, "-P", _PARENT, str(theirs.fileno())]
        parent = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        try:
            yield _Parent(ours).start
        finally:
            ours.close()
            # It kills what it started, and ends, once nobody can ask it for more.
            parent.wait(PATIENCE_SECONDS)


async def _start_anew(*arguments: str, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *SERVE, *arguments, stdin=pipe, stdout=pipe, env={**os.environ, **env}
    )


class _Parent:
    def __init__(self, line: socket.socket) -> None:
        self._line = line

    async def start(self, *arguments: str, env: Mapping[str, str]) -> Forked:
        """Fork a daemon."""
        its_in, to_it = os.pipe()
        from_it, its_out = os.pipe()
        pid = self.ask({"arguments": arguments, "env": dict(env)}, [its_in, its_out])
        os.close(its_in)
        os.close(its_out)
        process = Forked(pid, self)
        await process.connect(os.fdopen(to_it, "wb", 0), os.fdopen(from_it, "rb", 0))
        return process

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> int:
        """Ask one thing; the answer comes within milliseconds."""
        socket.send_fds(self._line, [json.dumps(request).encode() + b"\n"], descriptors)
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self._line.recv(_ANSWER_BYTES)
            if not piece:
                raise EOFError("the process that forks daemons has ended")
            answer += piece
        return int(answer)


class Forked:
    """A daemon that was forked, as `asyncio.subprocess` would show it."""

    def __init__(self, pid: int, parent: _Parent) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self._parent = parent

    async def connect(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Take over our ends of its pipes."""
        loop = asyncio.get_running_loop()
        self.stdout = reader = asyncio.StreamReader()
        self._reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), stdout
        )
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), stdin
        )
        self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)

    def kill(self) -> None:
        """Send SIGKILL; the process stays a zombie, and its number its own, until `wait`."""
        if self.returncode is None:
            os.kill(self.pid, 9)

    async def wait(self) -> int:
        """See its end, which has to be near: it was killed, or told to go."""
        if self.returncode is None:
            self.returncode = self._parent.ask({"pid": self.pid})
        return self.returncode
