"""Asking a person whether a call may run, and what was answered for a whole session.

Owns what an answer covers. Refuses to know who is asked, how, and how long that may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from treadle.permissions.modes import Capability
from treadle.sanitise import clean_line
from treadle.secrets import known
from treadle.thread.message import ToolCall

Answer: TypeAlias = Literal["allow_once", "allow_session", "deny"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked to judge: this very call, with these very arguments.

    Args:
        call: what the model asked for.
        capability: what it needs.
        detail: what it would do, on one line: a command, a path.
        preview: the whole of it: a diff, a script; empty where the detail says all.
        covers: what `allow_session` allows from then on; two calls with the same text are alike.
        task: the number of the task that makes the call; None where the session's own turn does.
    """

    call: ToolCall
    capability: Capability
    detail: str
    preview: str
    covers: str
    task: int | None = None

    @property
    def covered(self) -> str:
        """What `allow_session` allows, as a person is shown it."""
        return _shown(self.covers)


class Approver(Protocol):
    """Somebody who can say yes.

    Contract: `ask` answers within a bound of its own; nobody there, no answer in time and an
    answer that makes no sense are `deny`. An answer is on the device before it is returned. It
    may be cancelled, and then withdraws the question.
    """

    async def ask(self, question: Question) -> Answer:
        """Put the question and return the answer."""


class NobodyApproves:
    """Where there is nobody to ask."""

    async def ask(self, question: Question) -> Answer:
        """Deny."""
        return "deny"


class Granted:
    """What a person has allowed for a whole session: each text for the tool it was shown for.

    It lasts as long as this object, and is kept nowhere else.
    """

    def __init__(self) -> None:
        self._covered: dict[tuple[str, str], None] = {}

    def __contains__(self, question: Question) -> bool:
        return (question.call.name, question.covers) in self._covered

    @property
    def texts(self) -> tuple[str, ...]:
        """What was allowed, in the order of the answers, as a person is shown it."""
        return tuple(_shown(covers) for _, covers in self._covered)

    def add(self, question: Question) -> None:
        """Allow what a question covers."""
        self._covered[question.call.name, question.covers] = None


class Approvals:
    """What is allowed in one session beyond what its policy allows by itself.

    Args:
        approver: who is asked.
        granted: what was allowed before; nothing where absent.
    """

    def __init__(self, approver: Approver | None = None, granted: Granted | None = None) -> None:
        self._approver = approver or NobodyApproves()
        self._granted = granted or Granted()

    async def permit(self, question: Question) -> bool:
        """Whether a call may run, asking where that is not yet known."""
        if question in self._granted:
            return True
        answer = await self._approver.ask(question)
        if answer == "allow_session":
            self._granted.add(question)
        # Spelled out: whatever else an approver may return allows nothing.
        return answer in ("allow_once", "allow_session")


def _shown(covers: str) -> str:
    return clean_line(known().redact(covers))
