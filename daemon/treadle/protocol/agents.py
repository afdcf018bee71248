"""`agent/list`."""

from __future__ import annotations

from treadle.protocol.base import WireStruct


class AgentInfo(WireStruct):
    """An agent that can be prompted.

    `model` names the model that would answer now; `source` is the agent's file, or `built-in`.
    """

    name: str
    description: str
    model: str
    permissions: str
    sandbox: str
    tools: list[str]
    mcp_servers: list[str]
    source: str


class ProblemInfo(WireStruct):
    """A file that cannot be used as it stands, and why."""

    path: str
    message: str


class AgentListResult(WireStruct):
    """Every agent, and every file that should have been one."""

    agents: list[AgentInfo]
    problems: list[ProblemInfo]
