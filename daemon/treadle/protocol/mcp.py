"""MCP servers as clients see them: how they are doing, and what they have beside tools."""

from __future__ import annotations

from typing import Literal, TypeAlias

from treadle.protocol.base import Address, WireStruct
from treadle.protocol.sessions import PromptBlock

ServerState: TypeAlias = Literal["starting", "ready", "failed", "restarting", "stopped"]
"""`stopped` is also one that has not been needed yet."""


class McpListParams(Address):
    """Whose servers; nothing is started, and no turn is waited for."""


class McpServerInfo(WireStruct):
    """A server that the agent declares, whether or not the session is open.

    `tools` are named as a model calls them; before a server has run they are those of the last
    time, or none. `last_error` says why it failed or was lost last, and `stderr_tail` is the last
    that it wrote to standard error. With `shared` all sessions of the agent have it together.
    """

    server: str
    state: ServerState
    pid: int | None = None
    tools: list[str]
    last_error: str | None = None
    stderr_tail: str | None = None
    shared: bool


class McpListResult(WireStruct):
    """The agent's servers, in the order of declaration."""

    servers: list[McpServerInfo]


class McpAskParams(Address):
    """Of which server; of all where none is named. The session opens, and servers may start."""

    server: str | None = None


class McpFailure(WireStruct):
    """A server that was asked beside others and did not answer."""

    server: str
    message: str
    stderr_tail: str | None = None


class McpPromptArgument(WireStruct):
    """An argument that a prompt takes."""

    name: str
    description: str = ""
    required: bool = False


class McpPromptInfo(WireStruct):
    """A prompt that a server has ready."""

    server: str
    name: str
    description: str = ""
    arguments: list[McpPromptArgument] = []


class McpPromptsResult(WireStruct):
    """The prompts; where several servers were asked, also those that did not answer."""

    prompts: list[McpPromptInfo]
    failed: list[McpFailure] = []


class McpPromptParams(Address):
    """Which prompt of which server, and its arguments by name."""

    server: str
    name: str
    arguments: dict[str, str] = {}


class McpMessage(WireStruct):
    """A message of a prompt; the content is what `session/prompt` takes."""

    role: str
    content: list[PromptBlock]


class McpPromptResult(WireStruct):
    """What the prompt says."""

    messages: list[McpMessage]


class McpResourceInfo(WireStruct):
    """A resource that a server lists; with `template` its `uri` is one of several, with gaps."""

    server: str
    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""
    template: bool = False


class McpResourcesResult(WireStruct):
    """The resources; where several servers were asked, also those that did not answer."""

    resources: list[McpResourceInfo]
    failed: list[McpFailure] = []


class McpStatusNotification(WireStruct):
    """A server does something else.

    A session's own has the session's `instance` and `seq`; one that all sessions of the agent
    share has neither.
    """

    agent: str
    instance: str | None = None
    seq: int | None = None
    turn: int | None = None
    server: str
    state: ServerState
    pid: int | None = None
    tools: list[str] = []
    error: str | None = None
