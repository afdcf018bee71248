"""Asking whoever prompted, on the tools' behalf: whether a call may run, and what a model asks.

Owns that a question is in the thread before it is put, that an answer is there before anything
is done by it, and that every way out but a clear yes is a no.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from treadle.errors import ConfigurationError
from treadle.permissions.approvals import Answer, Question
from treadle.runtime import respondent as respondents
from treadle.runtime.client import Client, PermissionRequest, Questions
from treadle.runtime.respondent import Respondent
from treadle.runtime.shown import shown
from treadle.thread.message import now
from treadle.thread.records import ApprovalRecord
from treadle.thread.thread import Thread
from treadle.tools.asking import Asked

logger = logging.getLogger(__name__)

By: TypeAlias = Literal["", "client", "deadline", "nobody", "withdrawn"]


def digest_of(arguments: Mapping[str, Any]) -> str:
    """Return what a call's arguments are told by; see `ApprovalRecord`."""
    text = json.dumps(arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class TurnApprover:
    """Asks whoever prompted whether a call may run; one for each time a thread is opened.

    Args:
        respondent: whom the running turn can ask.
        thread: where it is kept.
    """

    def __init__(self, respondent: Respondent, thread: Thread) -> None:
        self._respondent = respondent
        self._thread = thread

    async def ask(self, question: Question) -> Answer:
        """Put the question and return the answer; see `permissions.approvals.Approver`."""
        client = self._respondent.client
        try:
            if client is None or not client.can_permit:
                return await self._decide(question, "deny", "nobody")
            if not await self._keep(question, "asked"):
                return await self._decide(question, "deny", "nobody")
            return await self._decide(question, *await self._answer(client, question))
        except ConfigurationError:
            logger.warning("a call of a turn that was left behind asked in vain")
            return "deny"

    async def _answer(self, client: Client, question: Question) -> tuple[Answer, By]:
        """Return the client's answer and who has decided."""
        request = PermissionRequest(
            self._respondent.pair,
            self._respondent.turn,
            question,
            respondents.APPROVAL_SECONDS,
        )
        try:
            answer = await self._respondent.wait_for(client.request_permission(request))
        except TimeoutError:
            return "deny", "deadline"
        except asyncio.CancelledError:
            await self._keep(question, "deny", "withdrawn")  # which does not suspend
            raise
        except Exception:
            logger.exception("a client could not be asked")
            answer = None
        return ("deny", "nobody") if answer is None else (answer, "client")

    async def _decide(self, question: Question, answer: Answer, by: By) -> Answer:
        """Keep a decision; what cannot be kept is not allowed."""
        if await self._keep(question, answer, by) or answer == "deny":
            return answer
        logger.warning("%s was allowed, but that could not be kept: denied", question.call.name)
        return "deny"

    async def _keep(
        self, question: Question, outcome: Answer | Literal["asked"], by: By = ""
    ) -> bool:
        call = question.call
        logger.info(
            "%s, turn %s: %s %s %s",
            shown(self._respondent.pair),
            self._respondent.turn,
            call.name,
            "asks to be allowed" if outcome == "asked" else outcome,
            f"by {by}" if by else "",
        )
        record = ApprovalRecord(call.id, call.name, digest_of(call.arguments), outcome, now(), by)
        return await self._thread.record_approval(record)


class TurnAsker:
    """Puts a model's questions to whoever prompted.

    Args:
        respondent: whom the running turn can ask.
    """

    def __init__(self, respondent: Respondent) -> None:
        self._respondent = respondent

    async def ask(self, questions: Sequence[Asked]) -> Mapping[str, str] | None:
        """Put questions and return the answers; see `tools.asking.Asker`."""
        client = self._respondent.client
        if client is None or not client.can_answer:
            return None
        asked = Questions(
            self._respondent.pair,
            self._respondent.turn,
            tuple(questions),
            respondents.APPROVAL_SECONDS,
        )
        try:
            return await self._respondent.wait_for(client.ask(asked))
        except TimeoutError:
            return None
        except Exception:
            logger.exception("a client could not be asked")
            return None
