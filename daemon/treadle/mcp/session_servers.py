"""The MCP servers of one session: which it has, what their tools are, and that they are given back.

Owns which server is needed for what an agent may do, and for how long. Refuses to know how one is
kept alive (`server`), and which sessions share one (`pool`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from treadle.errors import McpFailed
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.naming import server_of_tool, tool_names
from treadle.mcp.pool import Pool
from treadle.mcp.remote import RemoteError, RemotePrompt, RemoteResource, RemoteTool
from treadle.mcp.resources import RESOURCE_TOOLS, resource_tools
from treadle.mcp.server import Server
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.mcp.tools import as_tools
from treadle.permissions.policy import Policy
from treadle.tools.tool import Tool, ToolSource

# A pass of a turn waits so long, from its start, for a server that was never seen before; one that
# takes longer joins at a later pass. What is remembered of the others is offered at once.
PATIENCE_SECONDS = 3.0


@dataclass(slots=True)
class _Held:
    """A server that the session has, and its tools as they were made last."""

    server: Server
    made_of: tuple[object, ...] = ()
    tools: tuple[Tool, ...] = ()


class SessionServers:
    """The servers of one session.

    Args:
        pool: the daemon's.
        agent: the agent's name.
        tell: told whenever one of the session's own servers does something else.
            Contract: neither raises nor blocks.
    """

    def __init__(self, pool: Pool, agent: str, tell: Callable[[ServerStatus], None]) -> None:
        self._pool = pool
        self._agent = agent
        self._tell = tell
        self._held: dict[str, _Held] = {}
        self._folder: Path | None = None
        self._taken: frozenset[str] = frozenset()
        self._leaving: set[asyncio.Task[ServerEnd | None]] = set()
        self._is_closed = False

    async def use(
        self,
        declared: Sequence[ServerDeclaration],
        folder: Path | None,
        taken: Collection[str] = (),
    ) -> None:
        """Have just these servers from now on; one that is not declared any more is stopped.

        Those that are to begin with the session are started, the others when they are needed.

        Args:
            declared: the agent's, in order.
            folder: where the session works.
            taken: names that no tool of theirs may have.
        """
        if self._is_closed:
            return
        before, self._held = self._held, {}
        self._taken = frozenset(taken)
        for declaration in declared:
            held = before.get(declaration.name)
            if held is not None and self._stays(held.server, declaration, folder):
                del before[declaration.name]
            else:
                held = _Held(self._take(declaration, folder))
            self._held[declaration.name] = held
        self._folder = folder
        for left in before.values():
            self._leave(left.server)
        servers = [held.server for held in self._held.values()]
        await asyncio.gather(*(server.recall() for server in servers))
        for server in servers:
            if server.declaration.begin == "eager":
                server.begin()

    def begin_turn(self, policy: Policy) -> None:
        """Start what a turn under this policy may call something of."""
        for name, held in self._held.items():
            if _may_be_called(name, policy):
                held.server.begin()

    def source(
        self,
        declared: Iterable[ServerDeclaration],
        policy: Policy,
        only: tuple[str, ...] | None = None,
    ) -> ToolSource:
        """Return what brings the tools for each pass of a turn.

        Args:
            declared: whose servers' tools: those of the session's agent, or of one that works for
                it and has declared the same.
            policy: what it may do; what it never may is not offered.
            only: the names of the tools that are wanted; None for all.
        """
        names = {declaration.name for declaration in declared}

        async def bring() -> Sequence[Tool]:
            await self._wait(names)
            return [
                tool
                for server, tools in self._by_server().items()
                for tool in tools
                if server in names
                and policy.verdict(tool.spec.name, tool.capability) != "refuse"
                and (only is None or tool.spec.name in only)
            ]

        return bring

    def statuses(self) -> list[ServerStatus]:
        """Tell how each server is doing, in the order of declaration."""
        tools = self._by_server()
        return [
            replace(held.server.status, tools=tuple(tool.spec.name for tool in tools[name]))
            for name, held in self._held.items()
        ]

    async def prompts(self, server: str) -> tuple[RemotePrompt, ...]:
        """Return the prompts that a server has ready, starting it if need be.

        Raises:
            McpFailed: there is no such server, or it does not answer.
        """
        with self._asked(server) as found:
            return await found.list_prompts()

    async def prompt(
        self, server: str, name: str, arguments: dict[str, str]
    ) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return a prompt's messages; see `remote.Connection.get_prompt`.

        Raises:
            McpFailed: there is no such server or prompt, or it does not answer.
        """
        with self._asked(server) as found:
            return await found.get_prompt(name, arguments)

    async def resources(self, server: str) -> tuple[RemoteResource, ...]:
        """Return the resources that a server lists.

        Raises:
            McpFailed: there is no such server, or it does not answer.
        """
        with self._asked(server) as found:
            return await found.list_resources()

    async def close(self) -> list[ServerEnd]:
        """Give all of them back, side by side; safe to call twice, and bounded.

        Returns:
            Those that were stopped: the session's own, and shared ones that nobody else has.
        """
        self._is_closed = True
        held, self._held = self._held, {}
        for each in held.values():
            self._leave(each.server)
        ends = await asyncio.gather(*self._leaving)
        return [end for end in ends if end is not None]

    def _stays(self, server: Server, declared: ServerDeclaration, folder: Path | None) -> bool:
        """Whether a server is the one that is wanted; a shared one knows of no folder."""
        is_there = folder == self._folder or declared.scope == "agent"
        return is_there and server.declaration == declared

    def _take(self, declaration: ServerDeclaration, folder: Path | None) -> Server:
        return self._pool.take(self._agent, declaration, folder, self, self._tell_status)

    def _tell_status(self, server: Server) -> None:
        status = server.status
        held = self._held.get(status.server)
        if held is not None and held.server is server:
            names = tuple(tool.spec.name for tool in self._by_server()[status.server])
            status = replace(status, tools=names)
        self._tell(status)

    def _leave(self, server: Server) -> None:
        """Give a server back meanwhile: a turn does not wait for it, `close` does."""
        leaving = asyncio.create_task(self._pool.give_back(server, self))
        self._leaving.add(leaving)
        if not self._is_closed:
            leaving.add_done_callback(self._leaving.discard)

    async def _wait(self, names: Collection[str]) -> None:
        """Wait for those that are being started and were never seen before, not for long."""
        unseen = [
            held.server
            for name, held in self._held.items()
            if name in names and held.server.is_starting and not held.server.is_known
        ]
        # Counted from its start: one that hangs holds up one prompt, and not every one.
        waits = [(server, PATIENCE_SECONDS - server.begun_seconds) for server in unseen]
        await asyncio.gather(*(server.wait_settled(left) for server, left in waits if left > 0))

    def _by_server(self) -> dict[str, tuple[Tool, ...]]:
        """Make each server's tools, those of what has not changed once."""
        taken = set(self._taken)
        found: dict[str, tuple[Tool, ...]] = {}
        for name, held in self._held.items():
            server = held.server
            made_of = (server.tools, server.offers, frozenset(taken))
            if held.made_of != made_of:
                held.tools = _make(server, taken)
                held.made_of = made_of
            found[name] = held.tools
            taken |= {tool.spec.name for tool in held.tools}
        return found

    @contextmanager
    def _asked(self, name: str) -> Iterator[Server]:
        """Give the server of a name, to be asked something.

        Raises:
            McpFailed: there is none, or it refused or failed in the block.
        """
        held = self._held.get(name)
        if held is None:
            there = ", ".join(self._held) or "none"
            raise McpFailed(f"the agent has no MCP server {name!r}; it has: {there}", server=name)
        try:
            yield held.server
        except RemoteError as error:
            tail = held.server.status.stderr_tail
            raise McpFailed(error.message, server=name, stderr_tail=tail) from error


def _make(server: Server, taken: Collection[str]) -> tuple[Tool, ...]:
    """Make the tools of a server: its own in the order of their names, then those for resources."""
    name = server.declaration.name
    remote: list[RemoteTool] = sorted(server.tools, key=lambda tool: tool.name)
    names = tool_names(name, [tool.name for tool in remote], taken)
    made = as_tools(name, remote, names, server.call, None)
    if "resources" in server.offers:
        both = {*taken, *names.values()}
        two = resource_tools(name, both, server.list_resources, server.read_resource)
        # Whoever names the only tools that are taken means these as well.
        takes = server.declaration.takes
        made += [tool for what, tool in zip(RESOURCE_TOOLS, two, strict=True) if takes(what)]
    return tuple(made)


def _may_be_called(server: str, policy: Policy) -> bool:
    """Whether a policy can ever let something of a server be called."""
    return policy.mode != "read_only" or any(
        server_of_tool(name) == server for name in policy.mcp_allow
    )
