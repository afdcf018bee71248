"""Permission modes and capabilities: the words, and which mode is stricter.

Refuses to know tools, questions to a person, and who asks.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

PermissionMode: TypeAlias = Literal["read_only", "ask", "auto"]
Capability: TypeAlias = Literal["read", "write", "shell", "network", "fetch", "mcp"]
"""What a tool needs to be allowed: `fetch` reaches named hosts and nothing else, `network` any."""

# From strict to lax: the order in which PermissionMode names them.
MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)


def is_stricter_or_equal(wanted: PermissionMode, than: PermissionMode) -> bool:
    """Whether going from `than` to `wanted` gives nothing more."""
    return MODES.index(wanted) <= MODES.index(than)
