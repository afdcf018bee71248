"""The methods of MCP servers: how they are doing, and what they have beside tools.

Owns that a list starts nothing, and that a server that does not answer hides no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.agents.options import SessionOptions
from treadle.agents.servers import servers_of
from treadle.errors import McpFailed
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.status import ServerStatus
from treadle.protocol.mcp import (
    McpAskParams,
    McpFailure,
    McpListParams,
    McpListResult,
    McpPromptParams,
    McpPromptResult,
    McpPromptsResult,
    McpResourcesResult,
)
from treadle.runtime.outbox import Pair
from treadle.runtime.session import Session
from treadle.server.bridge import pair_of
from treadle.server.bridge_mcp import (
    failure,
    prompt_infos,
    prompt_messages,
    resource_infos,
    server_info,
)
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer

T = TypeVar("T")


@handles("mcp/list")
async def list_servers(params: McpListParams, peer: Peer) -> McpListResult:
    """Tell how an agent's servers are doing in one session, also where that is not open.

    Raises:
        UnknownAgent, InvalidAgent: there is nobody who could have any.
    """
    statuses = await _statuses(pair_of(params), peer)
    return McpListResult(servers=[server_info(status) for status in statuses])


@handles("mcp/prompts")
async def list_prompts(params: McpAskParams, peer: Peer) -> McpPromptsResult:
    """List the prompts of one server, or of all.

    Raises:
        McpFailed: the one that is named does not answer.
    """
    session = await _opened(pair_of(params), peer)
    found, failed = await _ask(
        params, peer, lambda server: session.mcp_servers(server).prompts(server)
    )
    infos = [info for server, prompts in found for info in prompt_infos(server, prompts)]
    return McpPromptsResult(prompts=infos, failed=failed)


@handles("mcp/prompt")
async def get_prompt(params: McpPromptParams, peer: Peer) -> McpPromptResult:
    """Have a server fill one of its prompts.

    Raises:
        McpFailed: there is no such server or prompt, or it does not answer.
    """
    session = await _opened(pair_of(params), peer)
    servers = session.mcp_servers(params.server)
    said = await servers.prompt(params.server, params.name, params.arguments)
    return McpPromptResult(messages=await asyncio.to_thread(prompt_messages, said))


@handles("mcp/resources")
async def list_resources(params: McpAskParams, peer: Peer) -> McpResourcesResult:
    """List the resources of one server, or of all.

    Raises:
        McpFailed: the one that is named does not answer.
    """
    session = await _opened(pair_of(params), peer)
    found, failed = await _ask(
        params, peer, lambda server: session.mcp_servers(server).resources(server)
    )
    infos = [info for server, listed in found for info in resource_infos(server, listed)]
    return McpResourcesResult(resources=infos, failed=failed)


async def _ask(
    params: McpAskParams, peer: Peer, question: Callable[[str], Awaitable[T]]
) -> tuple[list[tuple[str, T]], list[McpFailure]]:
    """Ask the server that is named, or all of them side by side.

    Returns:
        The answers by server, in the order of declaration, and the failures.

    Raises:
        McpFailed: the one that is named does not answer.
    """
    if params.server is not None:
        return [(params.server, await question(params.server))], []
    servers = [status.server for status in await _statuses(pair_of(params), peer)]
    answers = await asyncio.gather(*map(question, servers), return_exceptions=True)
    found: list[tuple[str, T]] = []
    failed: list[McpFailure] = []
    for server, answer in zip(servers, answers, strict=True):
        if isinstance(answer, McpFailed):
            failed.append(failure(server, answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.append((server, answer))
    return found, failed


async def _statuses(pair: Pair, peer: Peer) -> list[ServerStatus]:
    """Tell of every server that the agent's file declares now, and of those that still run."""
    catalogue = peer.runtime.services.catalogue

    def declared() -> tuple[ServerDeclaration, ...]:
        agent = catalogue.find(pair.agent, peer.agents.workspaces)
        return servers_of(agent, catalogue.config())

    now = await asyncio.to_thread(declared)
    session = peer.runtime.find(pair)
    held = {each.server: each for each in session.mcp_statuses()} if session else {}
    statuses = [
        held.pop(each.name, ServerStatus(each.name, "stopped", shared=each.scope == "agent"))
        for each in now
    ]
    return [*statuses, *held.values()]


async def _opened(pair: Pair, peer: Peer) -> Session:
    """Return the session, opened where nothing is held for it; no turn is waited for else."""
    session = peer.session(pair)
    if session.thread is None:
        await session.resume(SessionOptions(), peer.default_cwd)
    return session
