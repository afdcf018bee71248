"""The MCP servers of one session: which it has, what their tools are, and that they are given back.

Owns which server is needed for what an agent may do, and for how long. Refuses to know how one is
kept alive (`server`), and which sessions share one (`pool`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.pool import Pool
from treadle.mcp.remote import RemotePrompt, RemoteResource
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.permissions.policy import Policy
from treadle.tools.tool import Tool


class SessionServers:
    """The servers of one session.

    Args:
        pool: the daemon's.
        agent: the agent's name.
        tell: told whenever one of the session's own servers does something else.
            Contract: neither raises nor blocks.
    """

    def __init__(self, pool: Pool, agent: str, tell: Callable[[ServerStatus], None]) -> None:
        raise NotImplementedError

    async def use(
        self, declared: Sequence[ServerDeclaration], policy: Policy, folder: Path | None
    ) -> None:
        """Have just these servers from now on: those of a turn that begins.

        What is not declared any more, or otherwise, is stopped. What the policy lets nothing be
        called of is not started.
        """
        raise NotImplementedError

    async def tools(self) -> Sequence[Tool]:
        """Return what may be called now, for the next pass; waits a bounded moment for servers
        that are being started.
        """
        raise NotImplementedError

    def statuses(self) -> list[ServerStatus]:
        """Tell how each declared server is doing, in the order of declaration."""
        raise NotImplementedError

    async def prompts(self, server: str) -> tuple[RemotePrompt, ...]:
        """Return the prompts that a server has ready, starting it if need be.

        Raises:
            McpFailed: there is no such server, or it does not answer.
        """
        raise NotImplementedError

    async def prompt(
        self, server: str, name: str, arguments: dict[str, str]
    ) -> tuple[tuple[str, dict[str, object]], ...]:
        """Return a prompt's messages; see `remote.Connection.get_prompt`.

        Raises:
            McpFailed: there is no such server or prompt, or it does not answer.
        """
        raise NotImplementedError

    async def resources(self, server: str) -> tuple[RemoteResource, ...]:
        """Return the resources that a server lists.

        Raises:
            McpFailed: there is no such server, or it does not answer.
        """
        raise NotImplementedError

    async def close(self) -> list[ServerEnd]:
        """Give all of them back; safe to call twice, and bounded.

        Returns:
            Those that were stopped: the session's own, and shared ones that nobody else has.
        """
        raise NotImplementedError
