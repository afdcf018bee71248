"""What lives from one tool call of a session to the next, and is given back when it closes.

Owns nothing but the list of those things; each has a module of its own.
"""

from __future__ import annotations

import asyncio

from treadle.permissions.approvals import Approvals
from treadle.tools.changes import Changes
from treadle.tools.seen import Seen
from treadle.tools.spill import Spill


class ToolSession:
    """The tools' side of one session.

    Args:
        approvals: what the session's person has allowed; nobody is there to ask where absent.
        spill: where too long outputs are kept; nowhere where absent.

    Attributes:
        seen: the files that were read or written.
        changes: what was done to files, for undo.
        writing: held by whoever changes files, so that one change follows another.
    """

    def __init__(self, *, approvals: Approvals | None = None, spill: Spill | None = None) -> None:
        self.approvals = approvals or Approvals()
        self.spill = spill or Spill()
        self.seen = Seen()
        self.changes = Changes()
        self.writing = asyncio.Lock()

    async def close(self) -> None:
        """Give everything back; safe to call twice."""
        await self.spill.close()
