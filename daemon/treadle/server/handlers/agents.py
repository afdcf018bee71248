"""`agent/list`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from treadle.agents.catalogue import Catalogue
from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import named_model
from treadle.errors import TreadleError
from treadle.protocol.agents import AgentInfo, AgentListResult
from treadle.protocol.base import Empty
from treadle.server.bridge import agent_info, problem_info
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer


@handles("agent/list")
async def list_agents(params: Empty, peer: Peer) -> AgentListResult:
    """List what can be prompted and which files are broken.

    Those of the client's workspaces are among them; it is asked for the trust that they need.
    """
    # So that whatever is different from this list will be told.
    await peer.agents.begun()
    catalogue = peer.runtime.services.catalogue
    listed = await asyncio.to_thread(_list, catalogue, peer.agents.workspaces)
    peer.aside(peer.agents.ask_for_trust())
    return listed


def _list(catalogue: Catalogue, workspaces: Sequence[Path]) -> AgentListResult:
    agents, problems = catalogue.list(workspaces)
    try:
        config: Config | None = catalogue.config()
    except TreadleError:
        # It is broken and never was good, which is one of the problems.
        config = None
    return AgentListResult(
        agents=[_info(agent, config) for agent in agents],
        problems=[problem_info(problem) for problem in problems],
    )


def _info(agent: AgentDefinition, config: Config | None) -> AgentInfo:
    """Describe one agent; a model that cannot be had now does not hide it."""
    if config is None:
        return agent_info(agent, agent.model or "", Config())
    model, missing_variable = named_model(agent, config, os.environ)
    return agent_info(agent, model, config, missing_variable)
