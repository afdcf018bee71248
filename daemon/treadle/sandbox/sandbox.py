"""The sandbox seam: the files a tool may reach."""

from __future__ import annotations

from typing import Protocol


class Sandbox(Protocol):
    """Where a session's tools act.

    Contract: every method takes a path as a tool was given it; one that leads outside, by
    whatever way, raises `PermissionError`; the usual `OSError`s say what else is wrong, their
    text free of anything outside the sandbox. Methods suspend, they do not block.
    """

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a regular file."""

    async def names(self, path: str) -> list[str]:
        """List the entries of a folder, in order; used to name what is near a missing file."""
