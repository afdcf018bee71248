"""Permission modes: what an agent may ever do, and which mode is stricter.

Refuses to know tools, questions to a person, and who asks.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

PermissionMode: TypeAlias = Literal["read_only", "ask", "auto"]
Capability: TypeAlias = Literal["read", "write", "shell", "network"]

# From strict to lax: the order in which PermissionMode names them.
MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)


def may_ever(mode: PermissionMode, capability: Capability) -> bool:
    """Whether a tool with this capability can be allowed at all, by an answer or without one."""
    return mode != "read_only" or capability == "read"


def is_stricter_or_equal(wanted: PermissionMode, than: PermissionMode) -> bool:
    """Whether going from `than` to `wanted` gives nothing more."""
    return MODES.index(wanted) <= MODES.index(than)
