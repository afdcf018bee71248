"""The way from a command to the daemon that answers it, and back: the seam under `cli.client`.

There are two: a daemon in this very process, and the shared one, which is started if need be.
Owns which of them a command gets. Refuses to know what is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from treadle.cli.streams import tell
from treadle.errors import DaemonGone
from treadle.folders import Folders
from treadle.rendezvous.address import address_of
from treadle.rendezvous.calling import call
from treadle.rendezvous.reaching import Reached, reach
from treadle.runtime.runtime import Runtime
from treadle.server.connection import Connection
from treadle.server.log import start_log
from treadle.server.wire.framing import FrameParser, encode_frame


@dataclass(frozen=True, slots=True)
class Ends:
    """Who hears of what comes over a line.

    Args:
        on_body: of each message.
        on_broken: once, that nothing more comes, with why.

    Contract: neither may raise or block.
    """

    on_body: Callable[[bytes], None]
    on_broken: Callable[[DaemonGone], None]


class Line(Protocol):
    """A way to a daemon.

    Contract: `send` never blocks; `close` is called once, and nothing is heard after it.
    """

    is_shared: bool

    def send(self, body: bytes) -> None:
        """Send one message; dropped where the line is broken."""

    async def close(self) -> None:
        """Leave the daemon; one that is ours alone has come to rest when this returns."""


async def open_line(folders: Folders, ends: Ends, *, own: bool) -> Line:
    """Open a line to the daemon that a command is to use.

    Args:
        folders: the person's.
        ends: hears what comes.
        own: a daemon of the command's own, in this process, is wanted.

    Raises:
        DaemonUnreachable, UnsafePlace: the shared one cannot be used; the message says what to do.
    """
    if own:
        return OwnLine(folders, ends)
    reached = await asyncio.to_thread(reach, str(folders.data), str(folders.config))
    if reached.differing:
        reached.connected.close()
        tell(
            "treadle: the shared daemon is at work with other settings "
            f"({', '.join(reached.differing)}), so this command runs without it; "
            "`treadle daemon restart` gives it yours"
        )
        return OwnLine(folders, ends)
    return await SharedLine.over(reached, ends)


def is_running(folders: Folders) -> bool:
    """Whether the shared daemon of the data folder can be connected to now."""
    connected = call(address_of(str(folders.data)))
    if connected is not None:
        connected.close()
    return connected is not None


class OwnLine:
    """A daemon in this process, which nobody else reaches."""

    is_shared = False

    def __init__(self, folders: Folders, ends: Ends) -> None:
        start_log(folders, on_failure=lambda error: tell(f"treadle: no log: {error}"))
        self._runtime = Runtime(folders)
        self._connection = Connection(
            folders, lambda: self._runtime, send=ends.on_body, on_shutdown=self._runtime.close
        )

    def send(self, body: bytes) -> None:
        """See `Line`."""
        self._connection.receive(body)

    async def close(self) -> None:
        """See `Line`."""
        await self._runtime.close()
        await self._connection.close()


class SharedLine(asyncio.Protocol):
    """A connection to the shared daemon."""

    is_shared = True

    def __init__(self, ends: Ends, pid: int | None) -> None:
        self._ends = ends
        self._pid = pid
        self._parser = FrameParser()
        self._transport: asyncio.Transport
        self._is_closed = False
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def over(cls, reached: Reached, ends: Ends) -> SharedLine:
        """Speak over a connection that is there."""
        pid = reached.told.pid if reached.told else None
        reached.connected.setblocking(False)
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(lambda: cls(ends, pid), sock=reached.connected)
        return line

    def send(self, body: bytes) -> None:
        """See `Line`."""
        self._transport.write(encode_frame(body))

    async def close(self) -> None:
        """See `Line`; what was sent is still delivered, within a bound."""
        self._is_closed = True
        self._transport.close()
        await asyncio.wait({self._lost}, timeout=CLOSE_SECONDS)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand on what is whole."""
        for frame in self._parser.feed(data):
            if isinstance(frame, bytes) and not self._is_closed:
                self._ends.on_body(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell, once, that the daemon is gone."""
        self._lost.set_result(None)
        if not self._is_closed:
            self._is_closed = True
            self._ends.on_broken(
                DaemonGone(
                    f"the shared daemon (pid {self._pid or 'unknown'}) has ended; what was said "
                    "is in its thread, and the next command starts it anew"
                )
            )


# What a command has sent is in the system's hands at once, unless the daemon does not read.
CLOSE_SECONDS = 2.0


def workspace() -> str | None:
    """Return the folder that a command is run in, as a client tells it; None where it is gone."""
    try:
        return Path.cwd().as_uri()
    except FileNotFoundError:
        return None
