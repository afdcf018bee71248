"""The person behind one client, as far as the client can ask them anything.

Owns the ladder: our own requests where the client takes them, else LSP's dialog, else nothing is
asked at all; and that whatever is no clear answer is none. Refuses to know what is done with an
answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from treadle.permissions.approvals import Answer
from treadle.protocol.agents import RequestTrustParams, RequestTrustResult
from treadle.protocol.client import (
    AskResult,
    MessageAction,
    PermissionResult,
    ShowMessageRequestParams,
    ShowMessageRequestResult,
)
from treadle.runtime.client import PermissionRequest, Questions
from treadle.server.bridge_attach import ask_params, permission_params
from treadle.server.client_requests import ClientGone, ClientRequests, ClientSaidNo
from treadle.server.introduction import Hello

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The buttons of the dialog, the harmless one last, where some editors put the focus.
_ACTIONS: dict[str, Answer] = {
    "Allow": "allow_once",
    "Allow for this session": "allow_session",
    "Deny": "deny",
}

# A dialog has room for so much; an editor that shows more cuts it anywhere.
_PREVIEW_LINES = 20
_PREVIEW_CHARACTERS = 1500


class Person:
    """Asks one client.

    Args:
        hello: what the client said that it can do.
        requests: asks it.

    Attributes:
        has_left: it is gone, and what it began goes on.
    """

    def __init__(self, hello: Hello, requests: ClientRequests) -> None:
        self._requests = requests
        self._takes_permission = hello.options.request_permission
        self._has_dialogs = hello.declares("window", "showMessage")
        self._takes_questions = hello.options.ask
        self._takes_trust = hello.options.request_trust
        self._stays = not hello.options.cancel_on_disconnect
        self.has_left = False

    def leave(self) -> None:
        """Note that it is gone; what it began goes on, unless it said otherwise."""
        self.has_left = self._stays

    @property
    def can_permit(self) -> bool:
        """Whether it can be asked to allow a call."""
        return self._takes_permission or self._has_dialogs

    @property
    def can_answer(self) -> bool:
        """Whether it can be asked a model's questions."""
        return self._takes_questions

    async def request_permission(self, request: PermissionRequest) -> Answer | None:
        """Ask whether a call may run; see `runtime.client.Client`."""
        if not self._takes_permission:
            return await self._show(request) if self._has_dialogs else None
        params = permission_params(request)
        result = await self._ask(
            "session/requestPermission", params, request.expires_in_seconds, _permission_decoder
        )
        return result.outcome if result else None

    async def ask(self, questions: Questions) -> Mapping[str, str] | None:
        """Ask a model's questions; see `runtime.client.Client`."""
        if not self._takes_questions:
            return None
        params = ask_params(questions)
        result = await self._ask("session/ask", params, questions.expires_in_seconds, _ask_decoder)
        return result.answers if result else None

    async def request_trust(self, params: RequestTrustParams, timeout_seconds: float) -> bool:
        """Ask whether a workspace's agents are trusted; see `agent_news.Truster`."""
        if not self._takes_trust:
            return False
        method = "workspace/requestTrust"
        result = await self._ask(method, params, timeout_seconds, _trust_decoder)
        return result is not None and result.trusted

    async def _show(self, request: PermissionRequest) -> Answer | None:
        params = ShowMessageRequestParams(
            type=2,
            message=_words(request),
            actions=[MessageAction(title=title) for title in _ACTIONS],
        )
        chosen = await self._ask(
            "window/showMessageRequest", params, request.expires_in_seconds, _action_decoder
        )
        title = chosen.title if chosen else None
        return _ACTIONS.get(title) if isinstance(title, str) else None

    async def _ask(
        self,
        method: str,
        params: msgspec.Struct,
        timeout_seconds: float,
        decoder: msgspec.json.Decoder[T],
    ) -> T | None:
        """Return what the client answers; None where it is gone, says no, or makes no sense.

        Raises:
            TimeoutError: it has not answered in time.
        """
        try:
            return decoder.decode(await self._requests.request(method, params, timeout_seconds))
        except ClientSaidNo as no:
            logger.info("%s was answered with error %s", method, no.error.code)
        except ClientGone:
            logger.info("%s was not answered: the client is gone", method)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            logger.warning("%s was answered with what is no answer: %s", method, error)
        return None


_permission_decoder = msgspec.json.Decoder(PermissionResult)
_ask_decoder = msgspec.json.Decoder(AskResult)
_trust_decoder = msgspec.json.Decoder(RequestTrustResult)
_action_decoder = msgspec.json.Decoder(ShowMessageRequestResult | None)


def _words(request: PermissionRequest) -> str:
    """Return what a dialog says: who wants to do what, and the beginning of the whole of it."""
    question = request.question
    who = f"{request.pair.agent} · {request.pair.instance}"
    if question.task is not None:
        who += f" · task {question.task}"
    lines = question.preview[:_PREVIEW_CHARACTERS].split("\n")[:_PREVIEW_LINES]
    shown = "\n".join(lines).rstrip()
    hidden = len(question.preview.rstrip()) - len(shown)
    more = f"\n… {hidden:,} more characters" if hidden else ""
    preview = f"\n\n{shown}{more}" if shown else ""
    widest = f"“Allow for this session” covers: {question.covered}"
    return f"{who} wants: {question.detail}{preview}\n\n{widest}"
