"""Every MCP server of the daemon: which sessions share one, and that none outlives it.

Owns the servers with the scope `agent`, and what sessions with the same server have in common: how
often it failed, and what is remembered of it. Refuses to know what a session needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from treadle.folders import Folders
from treadle.mcp.breaker import Breaker
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.remembered import Remembered
from treadle.mcp.server import Server
from treadle.mcp.status import ServerEnd, ServerStatus

logger = logging.getLogger(__name__)

Watcher: TypeAlias = Callable[[str, ServerStatus], None]
"""Told the agent's name and how a shared server is doing. Contract: neither raises nor blocks."""


@dataclass(slots=True)
class _Shared:
    server: Server
    users: set[object] = field(default_factory=set)


class Pool:
    """The daemon's servers.

    Args:
        folders: where what is known of servers is kept (`cache`).
    """

    def __init__(self, folders: Folders) -> None:
        self._remembered = Remembered(folders.cache)
        self._breakers: dict[str, Breaker] = {}
        self._shared: dict[tuple[str, str], _Shared] = {}
        self._all: set[Server] = set()
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of shared servers from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def take(
        self,
        agent: str,
        declaration: ServerDeclaration,
        folder: Path | None,
        user: object,
        on_change: Callable[[Server], None],
    ) -> Server:
        """Return a server for a session: one of its own, or the one that its agent's share.

        Args:
            agent: the agent's name.
            declaration: the server's.
            folder: where the session works; a shared server knows of none.
            user: whoever gives it back.
            on_change: called with a server of its own whenever its status changes.
        """
        if declaration.scope == "session":
            return self._make(declaration, folder, on_change)
        key = (agent, declaration.fingerprint)
        if key not in self._shared:
            server = self._make(declaration, None, lambda server: self._tell(agent, server))
            self._shared[key] = _Shared(server)
        shared = self._shared[key]
        shared.users.add(user)
        return shared.server

    async def give_back(self, server: Server, user: object) -> ServerEnd | None:
        """Stop a server that nobody else has.

        Returns:
            How it ended; None where it goes on, or nothing of it ran.
        """
        for key, shared in tuple(self._shared.items()):
            if shared.server is server:
                shared.users.discard(user)
                if shared.users:
                    return None
                del self._shared[key]
        try:
            return await server.stop()
        finally:
            self._all.discard(server)

    async def close(self) -> list[ServerEnd]:
        """Stop whatever still runs, side by side; bounded, safe to call twice."""
        self._shared.clear()
        servers, self._all = tuple(self._all), set()
        ends = await asyncio.gather(*(server.stop() for server in servers))
        return [end for end in ends if end is not None]

    def _make(
        self,
        declaration: ServerDeclaration,
        folder: Path | None,
        on_change: Callable[[Server], None],
    ) -> Server:
        server = Server(
            declaration,
            folder=folder,
            remembered=self._remembered,
            breaker=self._breakers.setdefault(declaration.fingerprint, Breaker()),
            on_change=on_change,
        )
        self._all.add(server)
        return server

    def _tell(self, agent: str, server: Server) -> None:
        for watcher in tuple(self._watchers):
            watcher(agent, server.status)
