"""The tool `task`: a piece of work for a sub-agent, and what came of it.

Owns the words. What a sub-agent may do and how it runs is its delegate's.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from treadle.tools.delegate import CannotDelegate, TaskEnded
from treadle.tools.tool import ToolContext, ToolError, tool

# What a model writes in one go; whatever is longer belongs in a file that the task can read.
PROMPT_CHARACTERS = 50_000


@tool(capability="read", deadline_seconds=None)
async def task(
    prompt: Annotated[str, Meta(min_length=1, max_length=PROMPT_CHARACTERS)],
    *,
    agent: str = "",
    description: str = "",
    context: ToolContext,
) -> str:
    """Have a sub-agent do a piece of work on its own; you get its last answer.

    It begins with nothing but your prompt, sees nothing of this conversation, cannot ask you
    back, and may do at most what you may. Several tasks of one step run side by side.

    Args:
        prompt: all that it has to know, and what it is to answer with.
        agent: the name of the agent that does it; without one, an agent like you.
        description: the task in a few words, for the person who watches.
    """
    if not prompt.strip():
        raise ToolError("The prompt is empty: say what is to be done.")
    delegate = context.session.delegate
    if delegate is None:
        raise ToolError("There is nobody here to give a task to: do it yourself.")
    try:
        ended = await delegate.run(prompt, agent.strip() or None)
    except CannotDelegate as error:
        raise ToolError(str(error)) from error
    told = _told(ended)
    if ended.stop_reason != "end_turn":
        raise ToolError(told)
    return told


def _told(ended: TaskEnded) -> str:
    """Tell how a task ended, and then what it said: the beginning is never cut off."""
    calls = "1 model call" if ended.steps == 1 else f"{ended.steps} model calls"
    lines = [f"[task-{ended.number}, {ended.agent}: {ended.stop_reason} after {calls}]"]
    lines += [ended.problem] if ended.problem else []
    lines += [f"[stopped, for it still ran: {command}]" for command in ended.stopped]
    return "\n".join([*lines, ended.text or "(it said nothing)"])
