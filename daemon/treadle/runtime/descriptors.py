"""How many files this process may have open: as many as its system lets it."""

from __future__ import annotations

import contextlib
import sys

# Sessions, clients and MCP servers cost one to four each; more than this no daemon needs, and some
# systems have no bound at all.
WANTED = 65_536


def raise_limit() -> None:
    """Raise the soft limit to what the system allows; where it allows nothing, it stays."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
