"""Remembering agents, as a library; the daemon is `treadle serve`.

Names are resolved on first use, so that importing `treadle` costs next to nothing
and the daemon can answer `initialize` before anything of weight is loaded.
"""

# What `typing` calls so, without the price of importing it; type checkers know the name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    # For type checkers and editors; a test keeps it in step with the table below.
    from treadle.agents.described import Definition as Definition
    from treadle.compaction.compactor import Compactor as Compactor
    from treadle.compaction.conversation import Conversation as Conversation
    from treadle.compaction.ladder import CompactionEnv as CompactionEnv
    from treadle.compaction.ladder import Strategy as Strategy
    from treadle.compaction.ladders import build_ladder as build_ladder
    from treadle.compaction.oversize import Oversize as Oversize
    from treadle.compaction.settings import CompactionSettings as CompactionSettings
    from treadle.compaction.sliding_window import SlidingWindow as SlidingWindow
    from treadle.compaction.summarize import Summarize as Summarize
    from treadle.compaction.told import Compacted as Compacted
    from treadle.compaction.told import Compacting as Compacting
    from treadle.compaction.tool_results import ToolResults as ToolResults
    from treadle.models.openai import OpenAICompletion as OpenAICompletion
    from treadle.models.scripted import Reply as Reply
    from treadle.models.scripted import Scripted as Scripted
    from treadle.models.scripted import ScriptedCall as ScriptedCall
    from treadle.runtime.in_process import Session as Session
    from treadle.runtime.prompt import Outcome as Outcome
    from treadle.runtime.summarising import CompletionSummariser as CompletionSummariser
    from treadle.sandbox.local import LocalSandbox as LocalSandbox
    from treadle.sandbox.virtual import VirtualSandbox as VirtualSandbox
    from treadle.stack.stack import App as App
    from treadle.stack.stack import Stack as Stack
    from treadle.thread.message import Message as Message
    from treadle.thread.message import ToolCall as ToolCall
    from treadle.thread.message import Usage as Usage
    from treadle.tools.files.read import read as read
    from treadle.tools.tool import Tool as Tool
    from treadle.tools.tool import ToolContext as ToolContext
    from treadle.tools.tool import ToolError as ToolError
    from treadle.tools.tool import tool as tool
    from treadle.turn.agent import Agent as Agent
    from treadle.turn.compaction import Compaction as Compaction
    from treadle.turn.env import Env as Env
    from treadle.turn.loop import Loop as Loop
    from treadle.turn.loop import ToolResultLoop as ToolResultLoop
    from treadle.turn.max_iterations import MaxIterations as MaxIterations
    from treadle.turn.retry import Retry as Retry
    from treadle.turn.session_log import SessionLog as SessionLog
    from treadle.turn.steering import Inbox as Inbox
    from treadle.turn.steering import Steering as Steering
    from treadle.turn.system_prompt import SystemPrompt as SystemPrompt
    from treadle.turn.tools import Tools as Tools
    from treadle.version import __version__ as __version__
else:
    _HOMES = {
        "Agent": "treadle.turn.agent",
        "App": "treadle.stack.stack",
        "Compacted": "treadle.compaction.told",
        "Compacting": "treadle.compaction.told",
        "Compaction": "treadle.turn.compaction",
        "CompactionEnv": "treadle.compaction.ladder",
        "CompactionSettings": "treadle.compaction.settings",
        "Compactor": "treadle.compaction.compactor",
        "CompletionSummariser": "treadle.runtime.summarising",
        "Conversation": "treadle.compaction.conversation",
        "Definition": "treadle.agents.described",
        "Env": "treadle.turn.env",
        "Inbox": "treadle.turn.steering",
        "LocalSandbox": "treadle.sandbox.local",
        "Loop": "treadle.turn.loop",
        "MaxIterations": "treadle.turn.max_iterations",
        "Message": "treadle.thread.message",
        "OpenAICompletion": "treadle.models.openai",
        "Outcome": "treadle.runtime.prompt",
        "Oversize": "treadle.compaction.oversize",
        "Reply": "treadle.models.scripted",
        "Retry": "treadle.turn.retry",
        "Scripted": "treadle.models.scripted",
        "ScriptedCall": "treadle.models.scripted",
        "Session": "treadle.runtime.in_process",
        "SessionLog": "treadle.turn.session_log",
        "SlidingWindow": "treadle.compaction.sliding_window",
        "Stack": "treadle.stack.stack",
        "Steering": "treadle.turn.steering",
        "Strategy": "treadle.compaction.ladder",
        "Summarize": "treadle.compaction.summarize",
        "SystemPrompt": "treadle.turn.system_prompt",
        "Tool": "treadle.tools.tool",
        "ToolCall": "treadle.thread.message",
        "ToolContext": "treadle.tools.tool",
        "ToolError": "treadle.tools.tool",
        "ToolResultLoop": "treadle.turn.loop",
        "ToolResults": "treadle.compaction.tool_results",
        "Tools": "treadle.turn.tools",
        "Usage": "treadle.thread.message",
        "VirtualSandbox": "treadle.sandbox.virtual",
        "__version__": "treadle.version",
        "build_ladder": "treadle.compaction.ladders",
        "read": "treadle.tools.files.read",
        "tool": "treadle.tools.tool",
    }

    __all__ = list(_HOMES)

    def __getattr__(name):
        """Import a public name from the module that owns it, on first use."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'treadle' has no attribute {name!r}", name=name)
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__():
        """List the public names, resolved or not."""
        return __all__
