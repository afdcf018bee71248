"""What a client hears of MCP servers that sessions share: that they do something else.

What a session's own servers do comes with the session's other events. Owns what is sent. Refuses
to know servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from treadle.mcp.status import ServerStatus
from treadle.protocol.base import WireStruct
from treadle.server.bridge_mcp import status_of_shared

METHOD = "mcp/status"


class SharedServers(Protocol):
    """Whoever has them; see `mcp.pool.Pool`."""

    def watch(self, watcher: Callable[[str, ServerStatus], None]) -> None:
        """Tell the agent's name and a status, from now on."""

    def unwatch(self, watcher: Callable[[str, ServerStatus], None]) -> None:
        """Tell it no more; safe to call twice."""


class McpNews:
    """Tells one client of shared servers.

    Args:
        servers: has them.
        notify: sends the client one notification.
        opt_out: notifications that it does not want.
    """

    def __init__(
        self,
        servers: SharedServers,
        notify: Callable[[str, WireStruct], None],
        opt_out: frozenset[str],
    ) -> None:
        self._servers = servers
        self._notify = notify
        if METHOD not in opt_out:
            servers.watch(self._tell)

    def leave(self) -> None:
        """Tell nothing more; safe to call twice."""
        self._servers.unwatch(self._tell)

    def _tell(self, agent: str, status: ServerStatus) -> None:
        self._notify(METHOD, status_of_shared(agent, status))
