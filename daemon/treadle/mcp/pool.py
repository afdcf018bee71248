"""Every MCP server of the daemon: which sessions share one, and that none outlives it.

Owns the servers with the scope `agent`, and what is known of servers from before. Refuses to know
what a session needs.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.folders import Folders
from treadle.mcp.status import ServerEnd, ServerStatus


class Pool:
    """The daemon's servers.

    Args:
        folders: where what is known of servers is kept (`cache`).
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders

    def watch(self, watcher: Callable[[str, ServerStatus], None]) -> None:
        """Tell `watcher` the agent's name and the status of shared servers from now on.

        Contract of the watcher: neither raises nor blocks.
        """

    def unwatch(self, watcher: Callable[[str, ServerStatus], None]) -> None:
        """Tell it no more."""

    async def close(self) -> list[ServerEnd]:
        """Stop whatever still runs, side by side; bounded, safe to call twice."""
        return []
