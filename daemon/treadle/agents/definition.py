"""What an agent is, once its file has been read.

Owns the fields and their defaults; refuses to know where they were written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from treadle.agents.compaction_keys import CompactionKeys
from treadle.agents.servers import Declared, name_of
from treadle.compaction.ladder import CompactionEnv
from treadle.compaction.summariser import Summariser
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.expansion import secret_variables
from treadle.permissions.modes import PermissionMode
from treadle.permissions.policy import Policy
from treadle.stack.stack import App, LayerFactory
from treadle.tools.tool import CallEnv, Tool
from treadle.turn.env import Env

SandboxKind: TypeAlias = Literal["virtual", "local"]

LadderFactory: TypeAlias = Callable[[Summariser], App[CompactionEnv]]
"""Builds a ladder for one turn, on whatever writes its summaries."""

# The source of an agent that has no file.
BUILT_IN = "built-in"


class OwnLayer(NamedTuple):
    """A layer that an agent brings, and what it is made with."""

    layer: LayerFactory[Env]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """An agent; the defaults are what a file without front matter means.

    Args:
        name: the name of its file, without `.md`.
        description: what it is for, told to people.
        instructions: the system prompt.
        model: its own model's name; None where configuration decides.
        base_url: its own endpoint.
        api_key_env: the environment variable that holds the key.
        permissions: what it may do.
        sandbox: where its tools act.
        cwd: the folder of a local sandbox, absolute; None where the session decides.
        tools: the names of its tools; None for all that its permissions can ever allow.
        fetch_allow: the hosts that its tool `fetch` reaches, and their subdomains.
        mcp_servers: its MCP servers, in order.
        mcp_allow: the whole names of those servers' tools that need no other permission.
        mcp_tools: the whole names of the only tools of theirs that it has; None for all.
        skills: the names of its skills, which lie in the config folder.
        max_turns: how many model calls one prompt may make.
        compaction: what its file says of that; configuration decides the rest.
        source: its file's path, or `built-in`.
        own_tools: tools that it brings, beside the built-in ones.
        own_layers: layers that it brings, outermost first.
        own_pipeline: what calls of its tools run through, where it brings that.
        own_ladder: builds what its conversations are compacted by, where it brings that.
        workspace: the folder of the project that it belongs to; None where it is the person's.
    """

    name: str
    description: str = ""
    instructions: str = ""
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    permissions: PermissionMode = "read_only"
    sandbox: SandboxKind = "virtual"
    cwd: Path | None = None
    tools: tuple[str, ...] | None = None
    fetch_allow: tuple[str, ...] = ()
    mcp_servers: tuple[Declared, ...] = ()
    mcp_allow: tuple[str, ...] = ()
    mcp_tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] = ()
    max_turns: int | None = None
    compaction: CompactionKeys = field(default_factory=CompactionKeys)
    source: str = BUILT_IN
    own_tools: tuple[Tool, ...] = ()
    own_layers: tuple[OwnLayer, ...] = ()
    own_pipeline: App[CallEnv] | None = None
    own_ladder: LadderFactory | None = None
    workspace: Path | None = None

    @property
    def policy(self) -> Policy:
        """What its tools may do."""
        return Policy(self.permissions, self.fetch_allow, self.mcp_allow)

    @property
    def mcp_names(self) -> tuple[str, ...]:
        """The names of its MCP servers."""
        return tuple(map(name_of, self.mcp_servers))

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """The environment variables whose values nobody is to see."""
        own = [one for one in self.mcp_servers if isinstance(one, ServerDeclaration)]
        key = (self.api_key_env,) if self.api_key_env else ()
        return (*key, *(name for one in own for name in secret_variables(one)))
