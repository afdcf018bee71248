"""Remembering agents, as a library; the daemon is `treadle serve`.

Names are resolved on first use, so that importing `treadle` costs next to nothing
and the daemon can answer `initialize` before anything of weight is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.version import __version__

if TYPE_CHECKING:
    from treadle.models.openai import OpenAICompletion
    from treadle.models.scripted import Reply, Scripted, ScriptedCall
    from treadle.stack.stack import Stack
    from treadle.thread.message import Message, ToolCall, Usage
    from treadle.tools.read import read
    from treadle.tools.tool import Tool, ToolContext, tool
    from treadle.turn.agent import Agent
    from treadle.turn.env import Env
    from treadle.turn.loop import Loop, ToolResultLoop
    from treadle.turn.max_iterations import MaxIterations
    from treadle.turn.session_log import SessionLog
    from treadle.turn.system_prompt import SystemPrompt
    from treadle.turn.tools import Tools

_HOMES = {
    "Agent": "treadle.turn.agent",
    "Env": "treadle.turn.env",
    "Loop": "treadle.turn.loop",
    "MaxIterations": "treadle.turn.max_iterations",
    "Message": "treadle.thread.message",
    "OpenAICompletion": "treadle.models.openai",
    "Reply": "treadle.models.scripted",
    "Scripted": "treadle.models.scripted",
    "ScriptedCall": "treadle.models.scripted",
    "SessionLog": "treadle.turn.session_log",
    "Stack": "treadle.stack.stack",
    "SystemPrompt": "treadle.turn.system_prompt",
    "Tool": "treadle.tools.tool",
    "ToolCall": "treadle.thread.message",
    "ToolContext": "treadle.tools.tool",
    "ToolResultLoop": "treadle.turn.loop",
    "Tools": "treadle.turn.tools",
    "Usage": "treadle.thread.message",
    "read": "treadle.tools.read",
    "tool": "treadle.tools.tool",
}

__all__ = [
    "Agent",
    "Env",
    "Loop",
    "MaxIterations",
    "Message",
    "OpenAICompletion",
    "Reply",
    "Scripted",
    "ScriptedCall",
    "SessionLog",
    "Stack",
    "SystemPrompt",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResultLoop",
    "Tools",
    "Usage",
    "__version__",
    "read",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the module that owns it, on first use."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, resolved or not."""
    return __all__
