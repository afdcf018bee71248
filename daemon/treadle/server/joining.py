"""Neighbouring pieces of text that become one for a client that is late.

Owns from when on a client is late, and how much is joined. Refuses to know what the text is, and
in which notification it goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle.server.wire.writer import HIGH_WATER_BYTES

# While more than this is on its way to the client, neighbouring pieces are joined. The writer tells
# that it is low again only after it had this much: what was held below it could wait for ever.
JOIN_ABOVE_BYTES = HIGH_WATER_BYTES

# What is joined is sent when it has grown to this: then it counts as sent, so that a client that
# never reads again is noticed, and no notification is a burden to one that does.
MAX_JOINED_CHARACTERS = 1 << 20


@dataclass(slots=True)
class Joined:
    """Pieces that have not been sent."""

    parts: list[str] = field(default_factory=list)
    characters: int = 0

    @property
    def text(self) -> str:
        """All of them, as one."""
        return "".join(self.parts)

    @property
    def is_full(self) -> bool:
        """Whether they have to be sent, however late the client is."""
        return self.characters >= MAX_JOINED_CHARACTERS

    def add(self, text: str) -> None:
        """Join one more."""
        self.parts.append(text)
        self.characters += len(text)


def is_late(pending_bytes: int) -> bool:
    """Whether a client that has left so much unread is late."""
    return pending_bytes > JOIN_ABOVE_BYTES
