"""What a server offers and answers, in plain data: the words that the rest of the room shares.

Refuses to know the `mcp` package, so that nothing of weight is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from treadle.tools.sampling import Said

Era: TypeAlias = Literal["handshake", "modern"]
"""Which of the protocol's two ways a server speaks: `initialize` first, or each request by itself
(2026-07-28 and later)."""

Progress: TypeAlias = Callable[[str, float | None, float | None], None]
"""Told how far a call is: a text, and how much is done of how much where that is known.

Contract: neither raises nor blocks.
"""


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool as its server describes it.

    Args:
        name: as the server has it.
        description: what it is for.
        parameters: the JSON Schema of its arguments, an object's.
        title: a name for people.
        annotations: what the server says of its effects: hints for people, never authority.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    title: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """What a call came to.

    Args:
        blocks: content blocks in MCP's plain form: `{"type": "text", "text": …}` and so on.
        structured: its structured content, JSON-like; None where there is none.
        is_error: whether the server says that it failed.
    """

    blocks: tuple[dict[str, Any], ...] = ()
    structured: Any = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RemoteResource:
    """A resource that a server lists, or the template of some."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """An argument that a server's prompt takes."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class RemotePrompt:
    """A prompt that a server has ready."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class Elicited:
    """What a server asks the person: a message, and the JSON Schema of a flat object it wants."""

    message: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """What the person said to that; the content only where the action is `accept`."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] = field(default_factory=dict)


class RemoteError(Exception):
    """A server refused or failed, or the connection with it did; the text says what happened.

    Args:
        message: in words for a model and for a person; without the server's stderr.
        code: JSON-RPC's code, where the server said one.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Host(Protocol):
    """What a connected server may ask of us.

    Contract: `tools_changed` and `said` neither raise nor block; the others answer within bounds
    of their own, may be cancelled, and raise nothing but what is named.
    """

    @property
    def may_sample(self) -> bool:
        """Whether sampling is offered to the server at all."""

    def roots(self) -> tuple[Path, ...]:
        """Return the folders that the session works in."""

    def tools_changed(self) -> None:
        """Note that the server's tools are others now."""

    def said(self, level: str, text: str) -> None:
        """Note what the server logs."""

    async def elicit(self, asked: Elicited) -> ElicitationAnswer:
        """Ask the person whose call is in flight."""

    async def sample(
        self, messages: tuple[Said, ...], system: str, max_tokens: int
    ) -> tuple[str, str]:
        """Have the agent's model answer; see `tools.sampling.Sampler.sample`.

        Raises:
            CannotSample: it does not.
        """


class Connection(Protocol):
    """A server that has been connected with, as `connection.connect` yields it.

    Contract: what it promises ends within the seconds that are given, or by `RemoteError`; a
    caller that is cancelled tells the server, and is cancelled within a second. All may be called
    from any task of the loop, side by side.

    Attributes:
        era: how the server speaks.
        server: its own name and version, as it says them.
        offers: which of `tools`, `resources` and `prompts` it has.
    """

    era: Era
    server: str
    offers: frozenset[str]

    async def wait_lost(self) -> str:
        """Wait until nothing more can come from it; return why, in words."""

    async def list_tools(self, seconds: float) -> tuple[RemoteTool, ...]:
        """Return all its tools, of every page, in its order; bounded in number."""

    async def call(
        self, tool: str, arguments: dict[str, Any], *, seconds: float, progress: Progress
    ) -> RemoteResult:
        """Call a tool."""

    async def list_resources(self, seconds: float) -> tuple[RemoteResource, ...]:
        """Return all its resources, then the templates of some."""

    async def read_resource(self, uri: str, seconds: float) -> tuple[dict[str, Any], ...]:
        """Return a resource's contents, in MCP's plain form: uri, mimeType, text or blob."""

    async def list_prompts(self, seconds: float) -> tuple[RemotePrompt, ...]:
        """Return all its prompts."""

    async def get_prompt(
        self, name: str, arguments: dict[str, str], seconds: float
    ) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return a prompt's messages: pairs of a role and a content block in plain form."""
