"""What a chat is asked on the model's behalf, and which of the person's words answer that.

Owns that one question is open at a time. Refuses to know how anything looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from treadle.cli import permission
from treadle.cli.chat.activity import Activity
from treadle.cli.chat.items import Face, Note, SpeechEnded

# What can be typed while a call is to be allowed, and while the model has asked something.
PERMISSION_HINT = "y, a or n, then Enter; other words steer"
QUESTION_HINT = "type your answer, then Enter"


class Asking:
    """The questions that wait for the person's words.

    Args:
        face: shows them.
        activity: is told what can be typed.
    """

    def __init__(self, face: Face, activity: Activity) -> None:
        self._face = face
        self._activity = activity
        self._one_at_a_time = asyncio.Lock()
        self._shown: set[int] = set()  # questions that were put here and have no answer of ours
        self._meaning: Callable[[str], str | None] = lambda text: None
        self._open: asyncio.Future[str] | None = None

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the daemon's; see `cli.client.OnRequest`."""
        if not self._face.interactive:
            self._show(permission.refused(params))
            return {"outcome": "deny"}
        async with self._one_at_a_time:
            self._shown.add(params["question"])
            result = await self._answered(method, params)
            self._shown.discard(params["question"])
            return result

    def settled(self, params: dict[str, Any]) -> None:
        """Say how a question ended that was put here and that somebody else has answered."""
        if params["id"] in self._shown:
            self._shown.discard(params["id"])
            told = permission.SETTLED.get(params["outcome"], params["outcome"])
            self._face.show(Note(told))

    async def _answered(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == permission.PERMISSION:
            words = f"{permission.wanted(params)}\n{permission.how_to_answer(params)}"
            return {"outcome": await self._ask(words, PERMISSION_HINT, permission.outcome_of)}
        return {"answers": await self._answers(params["questions"])}

    def take(self, text: str) -> bool:
        """Take the person's words as the answer to the open question, if they are one."""
        if self._open is None or self._open.done():
            return False
        meant = self._meaning(text)
        if meant is None:
            return False
        self._open.set_result(meant)
        return True

    async def _answers(self, questions: list[dict[str, Any]]) -> dict[str, str]:
        answers = {}
        for question in questions:

            def meaning(text: str, question: dict[str, Any] = question) -> str | None:
                return permission.answer_of(question, text)

            words = permission.question_of(question)
            answers[question["id"]] = await self._ask(words, QUESTION_HINT, meaning)
        return answers

    async def _ask(self, words: str, hint: str, meaning: Callable[[str], str | None]) -> str:
        self._show(words)
        self._meaning = meaning
        self._open = asyncio.get_running_loop().create_future()
        self._activity.asks(hint)
        try:
            return await self._open
        finally:
            self._open = None
            self._activity.asks("")

    def _show(self, words: str) -> None:
        self._face.show(SpeechEnded())
        self._face.show(Note(words, "warning"))
