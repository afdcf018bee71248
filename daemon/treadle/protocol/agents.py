"""`agent/list`, what is told when agents change, and what a client is asked of them."""

from __future__ import annotations

from typing import Literal

from treadle.protocol.base import WireStruct


class AgentInfo(WireStruct):
    """An agent that can be prompted.

    `model` names the model that answers, or would if the variable `missingVariable`, which should
    hold its key, were set; `source` is the agent's file, or `built-in`.
    An agent of a project, whose folder is `workspace`, is called `<name>@<folder>-<hash>`.
    """

    name: str
    description: str
    model: str
    permissions: str
    sandbox: str
    tools: list[str]
    mcp_servers: list[str]
    source: str
    workspace: str | None = None
    missing_variable: str | None = None


class ProblemInfo(WireStruct):
    """A file that cannot be used as it stands, and why."""

    path: str
    message: str


class AgentListResult(WireStruct):
    """Every agent, and every file that should have been one."""

    agents: list[AgentInfo]
    problems: list[ProblemInfo]


class AgentChangedNotification(WireStruct):
    """An agent is not as it was; the next turn has it as it is now.

    Without a `name` any of them may be another: `config.toml` has changed (or is `broken`), or
    very many files have.
    """

    name: str | None = None
    change: Literal["added", "changed", "removed", "broken"]


class RequestTrustParams(WireStruct):
    """Asks whether the agents of a workspace may be used, as they are now.

    `path` is the workspace's folder, `files` are what lies below its `.treadle/agents`, and
    `changed` says that they were trusted before they were as they are now.
    """

    path: str
    files: list[str]
    changed: bool


class RequestTrustResult(WireStruct):
    """What the person says; anything but true is no."""

    trusted: bool
