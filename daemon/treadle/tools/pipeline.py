"""The pipeline of one call: a stack, like a turn.

    Truncate          whatever the call says, a failure too, is bounded
    TellFailures      below it things may raise; above it there are only outcomes
    Validate          the tool is there and its arguments fit
    Permit            the agent's policy allows it, or a person does
    Snapshot          what it changes can be undone
    execute           the tool's handler, under its deadline

Owns that order, and that every call has an outcome. Refuses to know the turn and the tools.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle.stack.stack import App, Stack
from treadle.thread.message import ToolCall
from treadle.thread.repair import NOT_RUN_TEXT
from treadle.tools.layers.execute import execute
from treadle.tools.layers.failures import TellFailures
from treadle.tools.layers.permit import Permit
from treadle.tools.layers.snapshot import Snapshot
from treadle.tools.layers.truncate import Truncate
from treadle.tools.layers.validate import Validate
from treadle.tools.tool import CallEnv, Tool, ToolContext


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to: `content` is what the model reads, whether it went well or not.

    `seconds` is how long it ran, without what it waited before that, such as for a person;
    `blocks` is what the model sees or hears beside the text, with its bytes.
    """

    content: str
    ok: bool
    truncated: bool
    seconds: float = field(default=0.0, compare=False)
    blocks: tuple[dict[str, Any], ...] = ()


def default_stack() -> Stack[CallEnv]:
    """Stack the layers that every call runs through where nobody says otherwise."""
    return (
        Stack[CallEnv]()
        .use(Truncate)
        .use(TellFailures)
        .use(Validate)
        .use(Permit)
        .use(Snapshot)
        .run(execute)
    )


DEFAULT: App[CallEnv] = default_stack().build()


async def run_call(
    call: ToolCall,
    tools: Mapping[str, Tool],
    context: ToolContext,
    pipeline: App[CallEnv] = DEFAULT,
) -> ToolOutcome:
    """Run one call.

    Args:
        call: what the model asked for.
        tools: what it may call, by name.
        context: what the session hands to its tools.
        pipeline: what it runs through, unless its tool has one of its own.

    Returns:
        The outcome; every failure is one, and so is that the caller was cancelled before the
        tool's handler began: then nothing has happened.

    Raises:
        asyncio.CancelledError: the caller was cancelled; the call may have had effects.
    """
    env = CallEnv(call, tools, context)
    tool = tools.get(call.name)
    way = tool.pipeline if tool and tool.pipeline else pipeline
    if way is DEFAULT:
        # Nothing acts on it before `execute`; of another pipeline nobody knows that.
        env.if_stopped = NOT_RUN_TEXT
    try:
        await way(env)
    except asyncio.CancelledError:
        if env.if_stopped is None:
            raise
        return ToolOutcome(env.if_stopped, ok=False, truncated=False)
    seconds = time.monotonic() - env.began if env.if_stopped is None else 0.0
    return ToolOutcome(env.content, env.ok, env.truncated, seconds, env.blocks)
