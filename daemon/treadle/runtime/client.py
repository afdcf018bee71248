"""Whoever prompted, as far as it can be asked something: the seam between turns and clients.

Refuses to know how a client is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from treadle.permissions.approvals import Answer, Question
from treadle.runtime.pair import Pair
from treadle.tools.asking import Asked


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call that a person is to allow.

    Args:
        pair: whose session.
        turn: the number of the turn that makes the call.
        question: the call, and what it would do.
        expires_in_seconds: an answer that comes later counts no more.
        id: tells it from the session's other questions.
    """

    pair: Pair
    turn: int
    question: Question
    expires_in_seconds: float
    id: int = 0


@dataclass(frozen=True, slots=True)
class Questions:
    """What a model asks a person.

    Args:
        pair: whose session.
        turn: the number of the turn that asks.
        questions: with ids that are distinct.
        expires_in_seconds: answers that come later count no more.
        id: tells it from the session's other questions.
    """

    pair: Pair
    turn: int
    questions: tuple[Asked, ...]
    expires_in_seconds: float
    id: int = 0


class Client(Protocol):
    """Whoever prompted, or watches.

    Contract: what is asked may be cancelled, and is then withdrawn; None says that it cannot be
    asked, is gone, or gave no answer that makes sense. Raises TimeoutError where the time is up.
    """

    @property
    def has_left(self) -> bool:
        """Whether it is gone, and what it began goes on: somebody may come back for it."""

    @property
    def can_permit(self) -> bool:
        """Whether it can be asked to allow a call."""

    @property
    def can_answer(self) -> bool:
        """Whether it can be asked a model's questions."""

    async def request_permission(self, request: PermissionRequest) -> Answer | None:
        """Ask whether a call may run."""

    async def ask(self, questions: Questions) -> Mapping[str, str] | None:
        """Ask a model's questions; return the answers by id."""
