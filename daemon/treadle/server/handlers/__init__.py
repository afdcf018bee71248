"""Handlers by resource: from decoded params to a result, through the runtime.

A handler is a function of `(params, peer)` under `@handles(method)`; importing its module
puts it on the list.
"""

from __future__ import annotations

from treadle.server.handlers import (
    agents,
    commands,
    compaction,
    daemon,
    mcp,
    sessions,
    threads,
    watching,
)
from treadle.server.handlers.registry import HANDLERS

__all__ = [
    "HANDLERS",
    "agents",
    "commands",
    "compaction",
    "daemon",
    "mcp",
    "sessions",
    "threads",
    "watching",
]
