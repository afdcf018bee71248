"""Which files a session has seen, and what they held: nobody writes over what it never read.

Refuses to know where files are and who changes them.
"""

from __future__ import annotations

import hashlib


class Seen:
    """What a session's tools read or wrote, by place; of each the last state alone."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}

    def note(self, place: str, data: bytes | None) -> None:
        """Note what a file holds; None where it is gone."""
        if data is None:
            self._digests.pop(place, None)
        else:
            self._digests[place] = _digest(data)

    def knows(self, place: str) -> bool:
        """Whether the file was ever seen."""
        return place in self._digests

    def is_current(self, place: str, data: bytes) -> bool:
        """Whether the file was last seen with just these bytes."""
        return self._digests.get(place) == _digest(data)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
