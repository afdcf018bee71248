"""Sessions that are held and do nothing: which of them is let go when there are too many.

Owns their order, the one that rests longest first. Refuses to know how a session lets go.
"""

from __future__ import annotations

from typing import Protocol


class Restful(Protocol):
    """A session, as far as it can be let go."""

    def let_go(self) -> None:
        """Give back what is held, unless something needs it; the session stays open."""


class Resting:
    """The sessions that rest.

    Attributes:
        most: how many may be held.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: dict[Restful, None] = {}

    def add(self, session: Restful) -> None:
        """Note that a session rests from now on; the oldest go where there are too many."""
        self._sessions[session] = None
        while len(self._sessions) > self.most:
            self._let_oldest_go()

    def discard(self, session: Restful) -> None:
        """Note that it works again, or holds nothing."""
        self._sessions.pop(session, None)

    def relieve(self) -> bool:
        """Let half of them go, the oldest first; return whether there were any."""
        number = (len(self._sessions) + 1) // 2
        for _ in range(number):
            self._let_oldest_go()
        return number > 0

    def _let_oldest_go(self) -> None:
        session = next(iter(self._sessions))
        del self._sessions[session]
        session.let_go()
