"""Running a call's handler, under its deadline: the bottom of the pipeline."""

from __future__ import annotations

import asyncio
import time

from treadle.tools.tool import Answer, CallEnv, ToolError


async def execute(env: CallEnv) -> None:
    """Run the handler; it is cancelled at the tool's deadline.

    Raises:
        ToolError: the deadline passed.
    """
    assert env.tool is not None, "Validate belongs around execute"
    env.if_stopped = None
    env.began = time.monotonic()
    deadline = asyncio.timeout(env.tool.deadline_seconds)
    try:
        async with deadline:
            answer = _answer(await env.tool.handler(env.arguments, env.context))
            env.content, env.blocks = answer.text, answer.blocks
    except TimeoutError:
        if not deadline.expired():
            raise
        raise ToolError(
            f"{env.call.name} was stopped after {env.tool.deadline_seconds:g} s without an "
            "answer; it may have had effects. Ask for less at a time."
        ) from None


def _answer(said: object) -> Answer:
    if isinstance(said, Answer):
        return said
    if not isinstance(said, str):
        raise TypeError(f"a tool's handler returns text, not {type(said).__name__}")
    return Answer(said)
