"""What an agent may do: its mode, and what its file allows by name.

Owns every verdict about a tool. Refuses to know tools' arguments, and how a person is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.permissions.modes import Capability, PermissionMode, is_stricter_or_equal

Verdict: TypeAlias = Literal["allow", "ask", "refuse"]

# What a mode says of whatever changes or tells anything, and is not allowed by name.
_BY_MODE: dict[PermissionMode, Verdict] = {"read_only": "refuse", "ask": "ask", "auto": "allow"}


@dataclass(frozen=True, slots=True)
class Policy:
    """An agent's permissions, as its definition and the session's options leave them.

    Args:
        mode: what becomes of what changes or tells anything.
        fetch_allow: the hosts that `fetch` reaches, their subdomains included, in every mode.
        mcp_allow: tools of MCP servers, by their whole names, that need no other permission.
    """

    mode: PermissionMode = "read_only"
    fetch_allow: tuple[str, ...] = ()
    mcp_allow: tuple[str, ...] = ()

    def verdict(self, tool: str, capability: Capability) -> Verdict:
        """Judge a tool by its name and by what it needs.

        What is refused is never advertised. What is allowed by `fetch_allow` is bound to it: the
        tool reaches those hosts and no others, whatever the mode.
        """
        if capability == "read":
            return "allow"
        if capability == "fetch":
            return "allow" if self.fetch_allow else "refuse"
        if capability == "mcp" and tool in self.mcp_allow:
            return "allow"
        return _BY_MODE[self.mode]

    def allows_host(self, host: str) -> bool:
        """Whether `fetch` may reach a host: one that is named, or a subdomain of it."""
        wanted = host.casefold().rstrip(".")
        return any(
            wanted == allowed or wanted.endswith(f".{allowed}")
            for allowed in (name.casefold().rstrip(".") for name in self.fetch_allow)
        )

    def within(self, other: Policy) -> Policy:
        """Return what both allow: for whoever acts on behalf of somebody else."""
        strict = is_stricter_or_equal(self.mode, than=other.mode)
        return Policy(
            self.mode if strict else other.mode,
            tuple(
                dict.fromkeys(
                    [
                        *filter(other.allows_host, self.fetch_allow),
                        *filter(self.allows_host, other.fetch_allow),
                    ]
                )
            ),
            tuple(name for name in self.mcp_allow if name in other.mcp_allow),
        )
