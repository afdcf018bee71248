"""How a server is doing, for people and clients, and how it ended.

Refuses to know who is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.mcp.remote import Era
from treadle.process.child import Rung

ServerState: TypeAlias = Literal["starting", "ready", "failed", "restarting", "stopped"]
"""`stopped` is also one that has not been needed yet."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How one server is doing.

    Args:
        server: its name.
        state: what it does.
        pid: its process, where it is one of ours and runs.
        tools: the names of the tools that it has, as a model is told them.
        error: why it failed or was lost last; empty where it did not.
        stderr_tail: the last that it wrote to standard error, cleaned and redacted.
        shared: whether all sessions of the agent have it together.
        era: how it speaks, once it is known.
        about: its own name and version, as it says them, once it is known.
    """

    server: str
    state: ServerState
    pid: int | None = None
    tools: tuple[str, ...] = ()
    error: str = ""
    stderr_tail: str = ""
    shared: bool = False
    era: Era | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class ServerEnd:
    """How a server ended that was stopped.

    Args:
        server: its name.
        pid: its process id; None where it is no process of ours.
        exit_code: what it returned, negative for a signal; None where there is no process or it
            could not be ended.
        by: the rung of the ladder that ended it.
    """

    server: str
    pid: int | None
    exit_code: int | None
    by: Rung
