"""What a call would write to a file: worked out before a person is asked, and again to be done.

Refuses to know how the new text comes about.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from treadle.sandbox.sandbox import Sandbox
from treadle.tools.files.diff import Diff, file_diff
from treadle.tools.files.target import Target


@dataclass(frozen=True, slots=True)
class Plan:
    """A file as it is, what it would hold, and the change between the two."""

    target: Target
    data: bytes
    diff: Diff

    @classmethod
    async def of(cls, target: Target, data: bytes) -> Self:
        """Plan to have a file hold these bytes."""
        diff = await asyncio.to_thread(file_diff, target.path, target.data, data)
        return cls(target, data, diff)

    async def carry_out(self, sandbox: Sandbox) -> str:
        """Write the file, if it is still as it was when that was planned.

        Returns:
            Where it went, as the sandbox says it.

        Raises:
            OSError: it has changed, or cannot be written.
        """
        return await sandbox.write_bytes(self.target.path, self.data, before=self.target.data)
