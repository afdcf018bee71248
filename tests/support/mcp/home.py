"""Where the processes of the kit call: each is dead when its line ends, and not before.

Owns the lines and what is told on them. Whatever is alive when a test is over is killed, and said.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from support.waiting import Waitable

KIT = str(Path(__file__).with_name("kit.py"))


@dataclass(eq=False)
class Line:
    """A process of the kit.

    Args:
        name: the server's name; of a process that it forked, behind a slash what that is.
        pid: None until it is told.
        news: what it was asked, in order.
        is_alive: whether the process is.
    """

    name: str
    pid: int | None = None
    news: list[str] = field(default_factory=list)
    is_alive: bool = True

    def __repr__(self) -> str:
        return f"{self.name} (pid {self.pid}, last heard: {self.news[-1:]})"


class Home(Waitable):
    """Takes the calls of the kit's processes."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.lines: list[Line] = []

    def command(self, name: str, *misdeeds: str) -> list[str]:
        """Return the command of a server that calls here."""
        return [sys.executable, "-I", "-S", KIT, name, str(self.port), *misdeeds]

    def of(self, name: str) -> list[Line]:
        """Return the lines of every server of that name, and of all that those forked."""
        return [line for line in self.lines if line.name.partition("/")[0] == name]

    def servers(self, name: str) -> list[Line]:
        """Return the lines of every server of that name, the first that was started first."""
        return [line for line in self.lines if line.name == name]

    def alive(self, names: Iterable[str]) -> list[Line]:
        """Return the living among the servers of these names and what they forked."""
        return [line for name in names for line in self.of(name) if line.is_alive]

    def heard(self, name: str, news: str) -> bool:
        """Tell whether a server of that name has told this."""
        return any(news in line.news for line in self.servers(name))

    async def kill(self) -> None:
        """Kill whoever is alive, and see their end."""

        def all_dead() -> bool:
            alive = [line for line in self.lines if line.is_alive]
            for line in alive:
                # While its line is there, its number is its own.
                if line.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(line.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            return not alive

        await self.until(all_dead)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line((await reader.readline()).decode().strip())
        self.lines.append(line)
        self.changed()
        # It waits for this, and does nothing that matters before it is heard of.
        writer.write(b".")
        with contextlib.suppress(ConnectionError):
            while told := (await reader.readline()).decode().strip():
                if told.startswith("pid "):
                    line.pid = int(told.removeprefix("pid "))
                else:
                    line.news.append(told)
                self.changed()
        line.is_alive = False
        self.changed()
        writer.close()


@contextlib.asynccontextmanager
async def open_home() -> AsyncIterator[Home]:
    """Take calls until the test ends; then nobody is alive any more, whatever happened."""
    home = Home()
    server = await asyncio.start_server(home.take, "127.0.0.1", 0)
    home.port = server.sockets[0].getsockname()[1]
    try:
        yield home
    finally:
        server.close()
        await home.kill()
        await server.wait_closed()
