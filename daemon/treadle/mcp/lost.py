"""Whether a connection is over: left by us, or lost, and why.

Owns that only the first reason counts. Refuses to know who finds it out.
"""

from __future__ import annotations

import asyncio


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

    async def wait(self) -> str:
        """Wait until it is lost; return why."""
        await self._lost.wait()
        return self.why

    async def wait_over(self) -> None:
        """Wait until it is lost or left."""
        await self._over.wait()
