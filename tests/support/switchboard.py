"""Where the processes of a test call; each is dead when its line ends, and not before."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from support.waiting import PATIENCE_SECONDS

T = TypeVar("T")

# Connects back, so that its death is the end of that connection.
HELLO = """
import os, signal, socket, subprocess, sys, time
line = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
line.sendall(b"%d\\n" % os.getpid())
"""


@dataclass
class Switchboard:
    """Takes the calls of children; `dead(pid)` returns when that child's line ends."""

    port: int = 0
    ended: dict[int, asyncio.Event] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid = int(await reader.readline())
        async with self.changed:
            ended = self.ended[pid] = asyncio.Event()
            self.changed.notify_all()
        await reader.read()
        ended.set()
        writer.close()

    async def called(self, count: int) -> set[int]:
        async with self.changed:
            await within_bound(self.changed.wait_for(lambda: len(self.ended) >= count))
        return set(self.ended)

    async def dead(self, *pids: int) -> None:
        for pid in pids:
            await within_bound(self.ended[pid].wait())

    def calling(self, then: str = "time.sleep(600)", *, first: str = "") -> str:
        """Return a shell command that is a process which calls, and then does something."""
        code = f"{first}\n{HELLO}{then}"
        return f"PORT={self.port} {shlex.join([sys.executable, '-I', '-S', '-c', code])}"


async def within_bound(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await awaitable


@asynccontextmanager
async def open_switchboard() -> AsyncIterator[Switchboard]:
    """Take calls until the test ends."""
    board = Switchboard()
    server = await asyncio.start_server(board.take, "127.0.0.1", 0)
    board.port = server.sockets[0].getsockname()[1]
    yield board
    server.close()
    await server.wait_closed()
