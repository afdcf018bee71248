"""What is known of one server: how it speaks, and its tools, from before or from now.

Owns when the cache folder is read and written, beside the loop, and that a server works without.
Refuses to know what lies there (`remembered`), and what becomes of tools.
"""

from __future__ import annotations

import asyncio
import logging

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.remembered import Known, Remembered
from treadle.mcp.remote import Era

logger = logging.getLogger(__name__)


class Memory:
    """What is known of a server.

    Args:
        remembered: what is known of servers from before.
        declaration: the server's.

    Attributes:
        known: what is known; None for nothing.
    """

    def __init__(self, remembered: Remembered, declaration: ServerDeclaration) -> None:
        self.known: Known | None = None
        self._remembered = remembered
        self._declaration = declaration

    @property
    def era(self) -> Era | None:
        """How it speaks, where that is known."""
        return self.known.era if self.known else None

    async def recall(self) -> Known | None:
        """Learn what is known from before, and return it."""
        fingerprint = self._declaration.fingerprint
        self.known = await asyncio.to_thread(self._remembered.recall, fingerprint)
        return self.known

    async def learn(self, now: Known) -> None:
        """Know something from now on, and keep it for the next start where it is new."""
        if now == self.known:
            return
        self.known = now
        try:
            await asyncio.to_thread(self._remembered.keep, self._declaration.fingerprint, now)
        except (OSError, ValueError) as error:
            # The next start asks anew, and nothing else is amiss.
            name = self._declaration.name
            logger.warning("the tools of the MCP server %s cannot be remembered: %s", name, error)
