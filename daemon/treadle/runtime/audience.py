"""Who watches a session, as far as they can be asked something; and the questions that are open.

Owns that a question reaches everybody who can answer it, whoever comes or goes meanwhile, that the
first answer counts, and that its end is told exactly once. Refuses to know what is asked, and how
a client is reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from treadle.permissions.approvals import Answer
from treadle.runtime.client import Client, PermissionRequest, Questions

logger = logging.getLogger(__name__)

# Whoever is asked within this is asked at once.
AT_ONCE_SECONDS = 0.05

T = TypeVar("T")

About: TypeAlias = PermissionRequest | Questions
Settlement: TypeAlias = Literal[
    "allow_once", "allow_session", "deny", "answered", "unanswered", "withdrawn"
]


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A question is open."""

    about: About


@dataclass(frozen=True, slots=True)
class QuestionSettled:
    """A question is open no more."""

    id: int
    outcome: Settlement


Tell: TypeAlias = Callable[[QuestionAsked | QuestionSettled, int], None]
"""Told with the turn's number. Contract: must not raise or block."""


class Audience:
    """The clients that watch one session.

    Args:
        tell: told of each question that opens and ends.
    """

    __slots__ = ("_clients", "_last_id", "_open", "_tell")

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._clients: list[Client] = []
        self._open: list[_Open[Any]] = []
        self._last_id = 0

    @property
    def open(self) -> list[About]:
        """The questions that nobody has answered yet, in the order in which they were asked."""
        return [question.about for question in self._open]

    def join(self, client: Client) -> None:
        """Let a client watch; what is open is put to it as well."""
        if client not in self._clients:
            self._clients.append(client)
            for question in self._open:
                question.offer(client)

    def leave(self, client: Client) -> None:
        """Let it go; what it was asked is withdrawn from it."""
        if client in self._clients:
            self._clients.remove(client)
            for question in self._open:
                question.withdraw(client)

    def with_prompter(self, client: Client | None) -> Panel:
        """Return whom a turn can ask: whoever prompted first, and everybody who watches."""
        return Panel(self, client)

    def everybody(self, first: Client | None) -> list[Client]:
        """Return the clients that are there, `first` foremost, who need not watch."""
        rest = [client for client in self._clients if client is not first]
        return rest if first is None else [first, *rest]

    async def put(self, question: _Open[T], first: Client | None) -> T | None:
        """Put a question to everybody who can answer it, and return the first answer.

        Returns:
            None where everybody who was asked gave none.

        Raises:
            TimeoutError: nobody answered in time.
        """
        self._open.append(question)
        self._tell(QuestionAsked(question.about), question.about.turn)
        outcome: Settlement = "withdrawn"
        try:
            for client in self.everybody(first):
                question.offer(client)
            question.end_if_refused()
            answer = await question.answer
            outcome = question.named(answer)
            return answer
        except TimeoutError:
            outcome = "unanswered"
            raise
        except asyncio.CancelledError:
            # The deadline of whoever waits comes as a cancel too; the clock tells them apart.
            outcome = "unanswered" if question.is_late else "withdrawn"
            raise
        finally:
            self._open.remove(question)
            question.close()
            self._tell(QuestionSettled(question.about.id, outcome), question.about.turn)

    def next_id(self) -> int:
        """Return a number that no question of this session has had."""
        self._last_id += 1
        return self._last_id


class Panel:
    """Everybody who may answer for the person in one turn; a `Client`.

    Args:
        audience: the session's.
        first: whoever prompted.
    """

    has_left = False

    def __init__(self, audience: Audience, first: Client | None) -> None:
        self._audience = audience
        self._first = first

    @property
    def can_permit(self) -> bool:
        """Whether anybody could allow a call, or has left and may come back for that."""
        return any(client.can_permit for client in self._audience.everybody(self._first))

    @property
    def can_answer(self) -> bool:
        """Whether anybody could answer a model's questions, or may come back for that."""
        return any(client.can_answer for client in self._audience.everybody(self._first))

    async def request_permission(self, request: PermissionRequest) -> Answer | None:
        """Ask whether a call may run."""
        request = replace(request, id=self._audience.next_id())
        return await self._audience.put(_Permission(request), self._first)

    async def ask(self, questions: Questions) -> Mapping[str, str] | None:
        """Ask a model's questions; return the answers by id."""
        questions = replace(questions, id=self._audience.next_id())
        return await self._audience.put(_Asking(questions), self._first)


@dataclass(slots=True, eq=False)
class _Open(Generic[T]):
    """A question, and those it was put to."""

    about: Any
    answer: asyncio.Future[T | None] = field(init=False)
    _until: float = field(init=False)
    _asked: dict[Client, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _may_return: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer = loop.create_future()
        self._until = loop.time() + self.about.expires_in_seconds

    @property
    def is_late(self) -> bool:
        """Whether its time is up."""
        return self._left_seconds <= 0

    @property
    def _left_seconds(self) -> float:
        left = self._until - asyncio.get_running_loop().time()
        # Whoever is asked at once has all of the time, to the digit.
        return left if self._is_old(left) else self.about.expires_in_seconds

    def _is_old(self, left: float) -> bool:
        return bool(self.about.expires_in_seconds - left > AT_ONCE_SECONDS)

    def offer(self, client: Client) -> None:
        """Put it to a client that can answer it and was not asked yet."""
        if client in self._asked or not self._can(client) or self.is_late:
            return
        if client.has_left:
            self._may_return = True
            return
        self._asked[client] = asyncio.ensure_future(self._put_to(client, self._left_seconds))

    def withdraw(self, client: Client) -> None:
        """Ask a client no more."""
        if (task := self._asked.pop(client, None)) is not None:
            task.cancel()
            self._may_return |= client.has_left
            self.end_if_refused()

    def end_if_refused(self) -> None:
        """Give up where nobody is asked any more, and nobody may come back."""
        if not self._may_return and all(task.done() for task in self._asked.values()):
            self._settle(None)

    def close(self) -> None:
        """Withdraw it from everybody who has not answered."""
        for task in self._asked.values():
            task.cancel()
        # What an answer that came in the same moment has set, nobody looks at.
        self.answer.cancel()

    def named(self, answer: T | None) -> Settlement:
        """Say how it was settled."""
        raise NotImplementedError

    def _can(self, client: Client) -> bool:
        raise NotImplementedError

    async def _ask(self, client: Client, seconds: float) -> T | None:
        raise NotImplementedError

    async def _put_to(self, client: Client, seconds: float) -> None:
        try:
            answer = await self._ask(client, seconds)
        except TimeoutError:
            if not self.answer.done():
                self.answer.set_exception(TimeoutError())
            return
        except Exception:
            logger.exception("a client could not be asked")
            answer = None
        if answer is not None:
            self._settle(answer)
            return
        self._may_return |= client.has_left
        asyncio.get_running_loop().call_soon(self.end_if_refused)

    def _settle(self, answer: T | None) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class _Permission(_Open[Answer]):
    def named(self, answer: Answer | None) -> Settlement:
        return answer or "unanswered"

    def _can(self, client: Client) -> bool:
        return client.can_permit

    async def _ask(self, client: Client, seconds: float) -> Answer | None:
        return await client.request_permission(replace(self.about, expires_in_seconds=seconds))


class _Asking(_Open[Mapping[str, str]]):
    def named(self, answer: Mapping[str, str] | None) -> Settlement:
        return "unanswered" if answer is None else "answered"

    def _can(self, client: Client) -> bool:
        return client.can_answer

    async def _ask(self, client: Client, seconds: float) -> Mapping[str, str] | None:
        return await client.ask(replace(self.about, expires_in_seconds=seconds))
