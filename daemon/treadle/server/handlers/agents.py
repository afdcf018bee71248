"""`agent/list`."""

from __future__ import annotations

import asyncio
import os

from treadle.agents.catalogue import Catalogue
from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import choose_model
from treadle.errors import TreadleError
from treadle.protocol.agents import AgentInfo, AgentListResult
from treadle.protocol.base import Empty
from treadle.server.bridge import agent_info, problem_info
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer


@handles("agent/list")
async def list_agents(params: Empty, peer: Peer) -> AgentListResult:
    """List what can be prompted and which files are broken."""
    return await asyncio.to_thread(_list, peer.runtime.services.catalogue)


def _list(catalogue: Catalogue) -> AgentListResult:
    agents, problems = catalogue.list()
    return AgentListResult(
        agents=[_info(agent, catalogue) for agent in agents],
        problems=[problem_info(problem) for problem in problems],
    )


def _info(agent: AgentDefinition, catalogue: Catalogue) -> AgentInfo:
    """Describe one agent; a model that cannot be had now does not hide it."""
    try:
        model = choose_model(agent, catalogue.config(), os.environ).model
    except TreadleError:
        model = agent.model or ""
    return agent_info(agent, model)
