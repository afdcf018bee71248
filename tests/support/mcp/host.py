"""A host that answers as a test says, and keeps what it was told; and a connection for one."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.waiting import PATIENCE_SECONDS, Waitable
from treadle.mcp.connection import connect
from treadle.mcp.declaration import ServerDeclaration, Transport
from treadle.mcp.remote import Connection, ElicitationAnswer, Elicited, Era, RemoteResult
from treadle.process.child import Child
from treadle.tools.sampling import CannotSample, Said

LINES = Path(__file__).with_name("lines.py")
OFFICIAL = Path(__file__).with_name("official.py")


class FakeHost(Waitable):
    """A host.

    Args:
        may_sample: whether it offers sampling.
        answer: what the person answers; nothing while it is None.
        roots: the folders.
    """

    def __init__(
        self,
        *,
        may_sample: bool = False,
        answer: ElicitationAnswer | None = None,
        roots: tuple[Path, ...] = (),
    ) -> None:
        super().__init__()
        self.may_sample = may_sample
        self.answer = answer
        self.folders = roots
        self.changes = 0
        self.log: list[tuple[str, str]] = []
        self.asked: list[Elicited] = []
        self.sampled: list[object] = []
        self.progress: list[tuple[str, float | None, float | None]] = []
        self.noise = bytearray()
        self.longest_noise = 0

    def roots(self) -> tuple[Path, ...]:
        return self.folders

    def tools_changed(self) -> None:
        self.changes += 1
        self.changed()

    def said(self, level: str, text: str) -> None:
        self.log.append((level, text))
        self.changed()

    async def elicit(self, asked: Elicited) -> ElicitationAnswer:
        self.asked.append(asked)
        self.changed()
        if self.answer is None:
            await asyncio.get_running_loop().create_future()
        assert self.answer is not None
        return self.answer

    async def sample(
        self, messages: tuple[Said, ...], system: str, max_tokens: int
    ) -> tuple[str, str]:
        self.sampled.append((messages, system, max_tokens))
        if system == "refuse":
            raise CannotSample("no turn runs")
        return "Paris", "a-model"

    def note(self, text: str, done: float | None, total: float | None) -> None:
        self.progress.append((text, done, total))
        self.changed()

    def take_noise(self, noise: bytes) -> None:
        self.longest_noise = max(self.longest_noise, len(noise))
        self.noise += noise
        self.changed()


async def call(
    connection: Connection, tool: str = "echo", seconds: float = PATIENCE_SECONDS, **arguments: Any
) -> RemoteResult:
    """Call a tool, whoever hears of its progress."""
    return await connection.call(tool, arguments, seconds=seconds, progress=FakeHost().note)


@contextlib.asynccontextmanager
async def started(*argv: str) -> AsyncIterator[Child]:
    """Have a child for as long as the block takes."""
    child = await Child.start([sys.executable, *argv], env={})
    try:
        yield child
    finally:
        await child.stop()


@contextlib.asynccontextmanager
async def spoken_with(
    *argv: str, host: FakeHost | None = None, era: Era | None = None
) -> AsyncIterator[tuple[Connection, Child]]:
    """Speak with a program that is a server."""
    host = host or FakeHost()
    async with started(*argv) as child, asyncio.timeout(PATIENCE_SECONDS):
        declaration = ServerDeclaration("it", command=sys.executable)
        async with connect(
            declaration, host, child=child, era=era, noise=host.take_noise
        ) as connection:
            yield connection, child


def lines(*program: str) -> tuple[str, ...]:
    """Return the arguments of a server that speaks lines, and does what a program says."""
    return ("-I", "-S", str(LINES), "\n".join(program))


def official(*misdeeds: str) -> tuple[str, ...]:
    """Return the arguments of a server made with the SDK."""
    return (str(OFFICIAL), *misdeeds)


@contextlib.asynccontextmanager
async def reached(
    url: str,
    *,
    host: FakeHost | None = None,
    era: Era | None = None,
    transport: Transport = "http",
    headers: tuple[tuple[str, str], ...] = (),
) -> AsyncIterator[Connection]:
    """Speak with a server behind a url."""
    host = host or FakeHost()
    declaration = ServerDeclaration("it", url=url, transport=transport, headers=headers)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        connect(declaration, host, child=None, era=era, noise=host.take_noise) as connection,
    ):
        yield connection
