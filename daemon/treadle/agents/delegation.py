"""What an agent may do that works for another one: what both may, and never more.

Owns that narrowing, whole. Refuses to know how a task runs. It looks where folders lie, which
blocks on the disk for a moment.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import is_local
from treadle.models.spec import ModelSpec
from treadle.sandbox.paths import is_within
from treadle.tools.task import task
from treadle.tools.tool import Tool


class CannotWorkFor(Exception):
    """There is nothing that both agents may do; the text says why, to a model."""


def within(
    agent: AgentDefinition, parent: AgentDefinition, tools: Collection[Tool]
) -> AgentDefinition:
    """Return an agent as it may work for another one.

    Args:
        agent: whoever does the task, by its own file.
        parent: whose task it is, as its session has it: a `local` one has the folder that it
            works in as its `cwd`.
        tools: what the parent is told of.

    Raises:
        CannotWorkFor: the two have no folder in common.
    """
    policy = agent.policy.within(parent.policy)
    named = {tool.spec.name for tool in tools if tool.capability != "mcp"}
    is_here = agent.sandbox == parent.sandbox == "local"
    return replace(
        agent,
        permissions=policy.mode,
        fetch_allow=policy.fetch_allow,
        mcp_allow=policy.mcp_allow,
        # Of the same name is not the same here either: only what both have declared alike.
        mcp_servers=tuple(one for one in agent.mcp_servers if one in parent.mcp_servers),
        mcp_tools=_mcp_tools(agent, parent),
        sandbox="local" if is_here else "virtual",
        cwd=_cwd(agent, parent) if is_here else None,
        tools=tuple(
            name
            for name in sorted(named)
            if (agent.tools is None or name in agent.tools) and name != task.spec.name
        ),
        # Of the same name is not the same: only what is the parent's very own.
        own_tools=tuple(own for own in agent.own_tools if any(own is one for one in tools)),
    )


def check_model(agent: AgentDefinition, parent: AgentDefinition, spec: ModelSpec) -> None:
    """Refuse a model elsewhere for an agent whose parent's own model sends nothing anywhere.

    Args:
        agent: whoever does the task.
        parent: whose task it is.
        spec: what would answer the agent.

    Raises:
        CannotWorkFor: it would tell somebody what the parent tells nobody.
    """
    if parent.model and is_local(parent.model) and spec.kind == "endpoint":
        raise CannotWorkFor(
            f"the agent {agent.name} is answered by {spec.model}, elsewhere; yours sends nothing "
            "anywhere, so it cannot give it a task"
        )


def _mcp_tools(agent: AgentDefinition, parent: AgentDefinition) -> tuple[str, ...] | None:
    """Return the names of the only tools of servers that both have; None for all."""
    if agent.mcp_tools is None or parent.mcp_tools is None:
        return parent.mcp_tools if agent.mcp_tools is None else agent.mcp_tools
    return tuple(name for name in agent.mcp_tools if name in parent.mcp_tools)


def _cwd(agent: AgentDefinition, parent: AgentDefinition) -> Path | None:
    """Return the folder that lies within both agents' own.

    Raises:
        CannotWorkFor: none does.
    """
    if agent.cwd is None or parent.cwd is None:
        return parent.cwd
    own, theirs = (Path(os.path.realpath(folder)) for folder in (agent.cwd, parent.cwd))
    if is_within(own, theirs):
        return own
    if is_within(theirs, own):
        return theirs
    raise CannotWorkFor(
        f"the agent {agent.name} works in a folder of its own, which has nothing in common with "
        "yours, so it cannot do a task here"
    )
