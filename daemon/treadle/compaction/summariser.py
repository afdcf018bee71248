"""The seam behind which somebody writes summaries.

Refuses to know which model that is, and how it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from treadle.errors import TreadleError
from treadle.thread.message import Usage


@dataclass(frozen=True, slots=True)
class Said:
    """What a summariser said, and what that cost."""

    text: str
    usage: Usage = field(default_factory=Usage)


class NoSummary(TreadleError):
    """What was said is no summary; `usage` is what that cost. Asking again may help."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class Summariser(Protocol):
    """Writes one text at a time.

    Contract: ends within a bound of its own; raises errors of `treadle.errors` where it fails,
    `ContextOverflow` where what it was given is too much for it, `NoSummary` where the answer is
    no text; calls no tools; may be cancelled.

    Attributes:
        window: how many tokens it takes and says, together.
    """

    window: int

    async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
        """Answer one message.

        Args:
            instructions: what it is to do.
            text: what it is to do that with.
            max_tokens: how long its answer is to be at most.
        """
