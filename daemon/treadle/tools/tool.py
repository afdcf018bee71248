"""The tool type, and the decorator that makes one from a plain typed function.

Owns what a tool is: what the model is told, what the tool needs to be allowed, how its
arguments are read, what runs. Refuses to know who calls it and whether it may run.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from treadle.errors import ConfigurationError
from treadle.models.completion import ToolSpec
from treadle.permissions.modes import Capability
from treadle.permissions.policy import Policy
from treadle.sandbox.sandbox import Sandbox
from treadle.stack.stack import App
from treadle.thread.message import ToolCall
from treadle.tools.session import ToolSession
from treadle.tools.signature import Signature, read_signature

# Reading, searching and most commands end long before; a model that waits longer is stuck.
CALL_DEADLINE_SECONDS = 120.0

# What every provider takes: OpenAI's rule for function names, the strictest of them.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolError(Exception):
    """Raised by a tool to tell the model, in its own words, what went wrong and what to do."""


def _no_progress(message: str, done: float | None = None, total: float | None = None) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool is given beside its arguments.

    Args:
        sandbox: where it may act.
        session: what lives from one call of the session to the next.
        policy: what the agent may do; the pipeline has judged the call by it already.
        call: the call itself.
        progress: tells watchers how far it is: a text, and where known how much is done of how
            much. Contract: neither raises nor blocks.
    """

    sandbox: Sandbox
    session: ToolSession = field(default_factory=ToolSession)
    policy: Policy = field(default_factory=Policy)
    call: ToolCall = field(default_factory=lambda: ToolCall("", "", {}))
    progress: Callable[[str, float | None, float | None], None] = _no_progress


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model gets of a call that is not text alone.

    Args:
        text: what it reads.
        blocks: content blocks as a message has them, of what it sees or hears: with their bytes.
    """

    text: str
    blocks: tuple[dict[str, Any], ...] = ()


Handler: TypeAlias = Callable[[Any, ToolContext], Awaitable[str | Answer]]
"""Runs a call: takes what `Tool.decode` made of the arguments, returns what the model reads.

Contract: may raise anything, and that becomes the call's result: ToolError and OSError with
their text, others logged and named; may suspend, must not block; is cancelled at the tool's
deadline; an empty answer is told as `(no output)`.
"""


Preview: TypeAlias = Callable[[Any, ToolContext], Awaitable["Shown"]]
"""Tells what a call would do, before it runs.

Contract: changes nothing; may raise as a handler may, and then the call has failed without
anybody being asked.
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a person sees of a call that asks to be allowed.

    Args:
        detail: what it would do, in a line; where it is longer, its preview is all of it.
        preview: the whole of it; empty where the detail says all.
        covers: what allowing it for the session allows, so that two calls with the same text
            are alike; every call of the tool where it is empty.
    """

    detail: str
    preview: str = ""
    covers: str = ""


def as_given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take arguments as they are: for tools whose server judges them itself."""
    return arguments


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a model may call.

    Args:
        spec: what the model is told.
        capability: what it needs to be allowed.
        handler: what runs.
        decode: reads the arguments, an object, for the handler.
            Contract: pure; raises msgspec.ValidationError where they do not fit the schema.
        deadline_seconds: how long one call may take; None where the tool bounds itself, because
            it waits for a person or for another agent.
        preview: tells a person what a call would do; its name and arguments where absent.
        writes: names the paths that a call would change, for those that write files: they are
            kept as they were, for undo, and no other call writes meanwhile.
            Contract: pure.
        pipeline: what a call runs through instead of the default.

    Raises:
        ConfigurationError: a provider would refuse the name, and with it every request.
    """

    spec: ToolSpec
    capability: Capability
    handler: Handler
    decode: Callable[[dict[str, Any]], Any] = as_given
    deadline_seconds: float | None = CALL_DEADLINE_SECONDS
    preview: Preview | None = None
    writes: Callable[[Any], Sequence[str]] | None = None
    pipeline: App[CallEnv] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.spec.name):
            raise ConfigurationError(
                f"{self.spec.name!r} is no name for a tool: 1 to 64 of A-Z, a-z, 0-9, _ and -"
            )


ToolSource: TypeAlias = Callable[[], Awaitable[Sequence[Tool]]]
"""Brings tools that come and go, for one pass of a turn.

Contract: raises nothing, waits a bounded moment at most; the order is stable, the names are
distinct.
"""


@dataclass(slots=True)
class CallEnv:
    """One call on its way: Validate sets `tool` and `arguments`, what runs sets the rest.

    Attributes:
        content: what the model reads, whether it went well or not.
        blocks: what it sees or hears beside that, as `Answer` has it.
        ok: it went well.
        truncated: the content is cut.
        if_stopped: what the model reads where the call is stopped now, as long as nothing can
            have happened; None where it may have had effects.
        began: when the tool's handler did, by `time.monotonic`; until then, when the call did.
    """

    call: ToolCall
    tools: Mapping[str, Tool]
    context: ToolContext
    tool: Tool | None = None
    arguments: Any = field(default=None, repr=False)
    content: str = ""
    blocks: tuple[dict[str, Any], ...] = ()
    ok: bool = True
    truncated: bool = False
    if_stopped: str | None = None
    began: float = field(default_factory=time.monotonic)


def tool(
    *,
    capability: Capability,
    deadline_seconds: float | None = CALL_DEADLINE_SECONDS,
    preview: Preview | None = None,
    writes: Callable[[Any], Sequence[str]] | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a Tool from a function.

    Its name is the function's, its description the docstring's text before `Args:`, its schema
    comes from the annotations. Arguments are described by the docstring's `Args:` or by
    `Annotated[..., msgspec.Meta(description=…)]`. A parameter `context` receives the
    ToolContext. What the function returns is what the model reads, as JSON unless it is text or an
    Answer. A plain `def` runs in a worker thread.

    Args:
        capability: what it needs to be allowed: read, write, shell, network, fetch or mcp.
        deadline_seconds: how long one call may take; None where it bounds itself.
        preview: tells a person what a call would do.
        writes: names the paths that a call would change.

    Raises:
        ConfigurationError: the signature cannot be told to a model.
    """

    def decorate(function: Callable[..., Any]) -> Tool:
        signature = read_signature(function)
        return Tool(
            ToolSpec(signature.name, signature.description, signature.schema),
            capability,
            _handler(function, signature),
            signature.decode,
            deadline_seconds,
            preview,
            writes,
        )

    return decorate


def _handler(function: Callable[..., Any], signature: Signature) -> Handler:
    async def handle(arguments: Any, context: ToolContext) -> str | Answer:
        named = {name: getattr(arguments, name) for name in signature.arguments}
        if signature.takes_context:
            named["context"] = context
        if inspect.iscoroutinefunction(function):
            return _said(await function(**named))
        return _said(await asyncio.to_thread(_call, function, named))

    return handle


def _call(function: Callable[..., Any], named: dict[str, Any]) -> Any:
    """Call a plain function in its thread.

    Raises:
        RuntimeError: it raised StopIteration, which a future cannot carry: the wait would hang.
    """
    try:
        return function(**named)
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error


def _said(result: Any) -> str | Answer:
    return result if isinstance(result, str | Answer) else msgspec.json.encode(result).decode()
