"""Questions that a model has for a person: their shape, and the seam behind which they are put.

Refuses to know who answers, how, and how long that may take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Asked:
    """One question.

    Args:
        id: under which its answer comes back.
        text: the question.
        options: answers that the model thinks of; a person may say anything else.
    """

    id: str
    text: str
    options: tuple[str, ...] = ()


class Asker(Protocol):
    """Puts questions to a person.

    Contract: `ask` answers within a bound of its own; None where nobody can be asked, or nobody
    answered. It may be cancelled, and then withdraws the questions. Answers are as they came.
    """

    async def ask(self, questions: Sequence[Asked]) -> Mapping[str, str] | None:
        """Put questions and return the answers by the questions' ids; some may be missing."""


class NobodyAnswers:
    """Where there is nobody to ask."""

    async def ask(self, questions: Sequence[Asked]) -> Mapping[str, str] | None:
        """Answer nothing."""
        return None
