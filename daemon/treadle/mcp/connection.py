"""A connection with an MCP server, from the first word to the last.

Owns that it is entered and left in one task within bounds, whatever the server does, and however
often that task is cancelled. Refuses to know when a server is started and stopped, and what its
tools are for. The protocol is the official SDK's; what uses that lies in `sdk` and is loaded with
the first connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.remote import Connection, Era, Host, RemoteError
from treadle.process.child import Child

if TYPE_CHECKING:
    from treadle.mcp.sdk.engine import Engine

logger = logging.getLogger(__name__)

# A server behind a url is told that we leave, for which `web` takes a second at most.
LEAVE_SECONDS = 1.5

# What is cancelled ends at once, unless a library swallows that; then it is cancelled again.
CANCEL_SECONDS = 0.2
MOST_CANCELS = 10

# They log what servers and we say to each other, tokens included.
_SILENT = ("mcp", "client", "httpx2", "httpcore2", "sse_starlette")


@asynccontextmanager
async def connect(
    declaration: ServerDeclaration,
    host: Host,
    *,
    child: Child | None,
    era: Era | None,
    noise: Callable[[bytes], None],
) -> AsyncIterator[Connection]:
    """Speak with a server for as long as the block takes.

    Nothing here bounds the start: the caller does, and cancels it. Leaving takes a second and a
    half at most, and no time once the caller is cancelled; calls in flight end by `RemoteError`.

    Args:
        declaration: the server, with every variable in it expanded.
        host: who answers what the server asks.
        child: its process, running; None for a server behind a url.
        era: how it spoke the last time, if that is known; it is tried first.
        noise: given what a child prints that is no message, in bounded pieces.
            Contract: neither raises nor blocks.

    Raises:
        RemoteError: there is no speaking with it.
    """
    engine = (await asyncio.to_thread(_load))(declaration, host, child, noise)
    running = asyncio.create_task(engine.run(era))
    try:
        yield await _ready(engine, running)
    finally:
        await _end(engine, running)


def _load() -> type[Engine]:
    """Load the SDK, which takes half a second; meant for a worker thread."""
    from treadle.mcp.sdk.engine import Engine

    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return Engine


async def _ready(engine: Engine, running: asyncio.Task[None]) -> Connection:
    over = asyncio.create_task(engine.lost.wait())
    try:
        waited: set[asyncio.Future[Any]] = {engine.ready, over, running}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    finally:
        over.cancel()
    if not engine.ready.done():
        raise RemoteError(engine.lost.why or "the server cannot be spoken with")
    return engine.ready.result()


async def _end(engine: Engine, running: asyncio.Task[None]) -> None:
    """Have the connection end, and see it end, even if the caller is cancelled meanwhile.

    Raises:
        asyncio.CancelledError: the caller was.
    """
    engine.lost.leave()
    if not engine.ready.done():
        running.cancel()
    engine.ready.cancel()
    cancelled: asyncio.CancelledError | None = None
    seconds = LEAVE_SECONDS
    for _ in range(MOST_CANCELS):
        try:
            await asyncio.wait({running}, timeout=seconds)
        except asyncio.CancelledError as caught:
            cancelled = caught
        if running.done():
            break
        running.cancel()
        seconds = CANCEL_SECONDS
    else:
        logger.error("a connection with an MCP server does not end; it is left behind")
    if cancelled is not None:
        raise cancelled
