"""The pipeline of one call: a stack, like a turn.

    Truncate          whatever the call says, a failure too, is bounded
    TellFailures      below it things may raise; above it there are only outcomes
    Validate          the tool is there and its arguments fit
    execute           the tool's handler, under its deadline

Permission and snapshot have their place between Validate and execute.
Owns that every call has an outcome; refuses to know the turn and the tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from treadle.secrets import known
from treadle.stack.stack import App, Stack
from treadle.thread.message import ToolCall, clean
from treadle.thread.repair import EMPTY_RESULT_TEXT
from treadle.tools.limits import RESULT_LIMIT_BYTES, cut_bytes
from treadle.tools.nearest import did_you_mean
from treadle.tools.tool import Tool, ToolContext, ToolError

logger = logging.getLogger(__name__)

# What is quoted back to the model of what it sent: enough to recognise it.
_QUOTED_CHARACTERS = 200

# Where the cut is, so that the model knows there is more.
_NOTE = "\n[… cut: the whole result has {whole_bytes} bytes, this is its beginning]"


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to: `content` is what the model reads, whether it went well or not."""

    content: str
    ok: bool
    truncated: bool


@dataclass(slots=True)
class CallEnv:
    """One call on its way: Validate sets `tool` and `arguments`, what runs sets the rest."""

    call: ToolCall
    tools: Mapping[str, Tool]
    context: ToolContext
    tool: Tool | None = None
    arguments: Any = field(default=None, repr=False)
    content: str = ""
    ok: bool = True
    truncated: bool = False


async def run_call(call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> ToolOutcome:
    """Run one call.

    Args:
        call: what the model asked for.
        tools: what it may call, by name.
        context: what the session hands to its tools.

    Returns:
        The outcome; every failure is one.

    Raises:
        asyncio.CancelledError: the caller was cancelled; the call may have had effects.
    """
    env = CallEnv(call, tools, context)
    await _pipeline(env)
    return ToolOutcome(env.content, env.ok, env.truncated)


class Truncate:
    """Bounds what the model reads, at a whole character, with a note. Belongs outermost.

    What says nothing at all says so: a result without text is none to some providers.
    """

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Pass the env inwards, then cut what it says."""
        await self._app(env)
        # Secrets first: half of one, at the cut, is not recognised any more.
        env.content = known().redact(clean(env.content)) or EMPTY_RESULT_TEXT
        whole_bytes = len(env.content.encode())
        if whole_bytes > RESULT_LIMIT_BYTES:
            note = _NOTE.format(whole_bytes=whole_bytes)
            env.content = cut_bytes(env.content, RESULT_LIMIT_BYTES - len(note.encode())) + note
            env.truncated = True


class TellFailures:
    """Makes of whatever is raised below an outcome the model can act on.

    Belongs directly inside Truncate.
    """

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Pass the env inwards; only a cancel of this very task goes through."""
        try:
            await self._app(env)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            _fail(env, f"{env.call.name} was cancelled from within; it may have had effects")
        except ToolError as error:
            _fail(env, str(error))
        except OSError as error:
            # Without the file names it carries, for they may lie outside the sandbox.
            what = error.strerror or str(error) or type(error).__name__
            _fail(env, f"{env.call.name} failed: {what}")
        except (Exception, SystemExit) as error:
            logger.exception("the tool %s raised", env.call.name)
            _fail(env, f"{env.call.name} failed: {type(error).__name__}: {error}")


class Validate:
    """Finds the tool and reads its arguments. Belongs before anything that judges the call."""

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Set the env's tool and arguments and pass it inwards.

        Raises:
            ToolError: there is no such tool, or the arguments do not fit.
        """
        env.tool = _find(env.call.name, env.tools)
        env.arguments = _decode(env.call, env.tool)
        await self._app(env)


async def execute(env: CallEnv) -> None:
    """Run the handler; it is cancelled at the tool's deadline.

    Raises:
        ToolError: the deadline passed.
    """
    assert env.tool is not None, "Validate belongs around execute"
    deadline = asyncio.timeout(env.tool.deadline_seconds)
    try:
        async with deadline:
            env.content = _checked(await env.tool.handler(env.arguments, env.context))
    except TimeoutError:
        if not deadline.expired():
            raise
        raise ToolError(
            f"{env.call.name} was stopped after {env.tool.deadline_seconds:g} s without an "
            "answer; it may have had effects. Ask for less at a time."
        ) from None


_pipeline = Stack[CallEnv]().use(Truncate).use(TellFailures).use(Validate).run(execute).build()


def _fail(env: CallEnv, content: str) -> None:
    env.content, env.ok = content, False


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _find(name: str, tools: Mapping[str, Tool]) -> Tool:
    if name in tools:
        return tools[name]
    there_are = f"The tools are: {', '.join(tools)}." if tools else "There are no tools."
    guess = did_you_mean(name, tools)
    raise ToolError(f"There is no tool {_quoted(name)}.{guess} {there_are}")


def _decode(call: ToolCall, tool: Tool) -> Any:
    if call.raw_arguments:
        raise ToolError(
            f"The arguments of {call.name} were no JSON object: {_quoted(call.raw_arguments)}. "
            f"Send an object that fits this schema: {_schema(tool)}"
        )
    try:
        return tool.decode(call.arguments)
    except msgspec.ValidationError as error:
        raise ToolError(
            f"The arguments of {call.name} do not fit: {_plain(error)}. "
            f"Send an object that fits this schema: {_schema(tool)}"
        ) from error


def _checked(content: object) -> str:
    if not isinstance(content, str):
        raise TypeError(f"a tool's handler returns text, not {type(content).__name__}")
    return content


def _plain(error: msgspec.ValidationError) -> str:
    """Say `offset: Expected int, got str` for msgspec's ``Expected `int` … - at `$.offset```."""
    what, _, where = str(error).partition(" - at `$.")
    what = what.replace("`", "").replace("Object ", "")
    return f"{where.rstrip('`')}: {what}" if where else what


def _schema(tool: Tool) -> str:
    return msgspec.json.encode(tool.spec.parameters).decode()


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "…")
