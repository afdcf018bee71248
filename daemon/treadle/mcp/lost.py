"""Whether a connection is over: left by us, or lost, and why.

Owns that only the first reason counts. Refuses to know who finds it out.
"""

from __future__ import annotations

import asyncio
import logging

from treadle.mcp.remote import RemoteError

logger = logging.getLogger(__name__)


class Lost:
    """Whether a connection is over.

    Attributes:
        why: why nothing more can come from the server; empty while it may.
    """

    def __init__(self) -> None:
        self.why = ""
        self._lost = asyncio.Event()
        self._over = asyncio.Event()

    def because(self, why: str) -> None:
        """Note that the connection is lost."""
        if not self.why:
            self.why = why
            self._lost.set()
            self._over.set()

    def leave(self) -> None:
        """Note that we want no more of it."""
        self._over.set()

    @property
    def is_left(self) -> bool:
        """Whether we wanted no more of it, before it was lost."""
        return self._over.is_set() and not self.why

    async def wait(self) -> str:
        """Wait until it is lost; return why."""
        await self._lost.wait()
        return self.why

    async def wait_over(self) -> None:
        """Wait until it is lost or left."""
        await self._over.wait()


def why_over(serving: asyncio.Task[str]) -> str:
    """Say why a connection is over.

    Args:
        serving: what held it: returns the reason, or raises it.
    """
    if not serving.done() or serving.cancelled():
        return "it was told to stop"
    error = serving.exception()
    if error is None:
        return serving.result()
    if isinstance(error, RemoteError):
        return error.message
    logger.error("a connection with an MCP server failed in an unforeseen way", exc_info=error)
    return f"the connection failed: {type(error).__name__}"


def end_at_last(serving: asyncio.Task[str]) -> None:
    """Take note of the end of what had been left behind."""
    if not serving.cancelled() and (error := serving.exception()) is not None:
        logger.warning("a connection that had been left behind ended with %r", error)
