"""Whoever sits at the terminal of a command: asked by lines, one question after the other.

Owns that a word answers only the question that was on the screen when it was typed. Without a
terminal every call is denied. Refuses to know the words of questions.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any

from treadle.cli import permission
from treadle.cli.streams import tell

if TYPE_CHECKING:
    from treadle.cli.chat.lines import Lines


class AtTerminal:
    """Answers what the daemon asks.

    Attributes:
        is_there: somebody can read what is asked, and type.
    """

    def __init__(self) -> None:
        self.is_there = sys.stdin.isatty() and sys.stderr.isatty()
        self._one_at_a_time = asyncio.Lock()
        self._lines: Lines | None = None
        self._reading: asyncio.Future[str | None] | None = None

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the daemon's; see `cli.client.OnRequest`."""
        if not self.is_there:
            tell(f"treadle: {permission.refused(params)}")
            return {"outcome": "deny"}
        async with self._one_at_a_time:
            if method == permission.PERMISSION:
                return {"outcome": await self._permit(params)}
            return {"answers": await self._answers(params["questions"])}

    async def _permit(self, params: dict[str, Any]) -> str:
        tell(f"treadle: {permission.wanted(params)}")
        while True:
            text = await self._ask(permission.how_to_answer(params))
            if text is None:
                return "deny"
            if outcome := permission.outcome_of(text):
                return outcome

    async def _answers(self, questions: list[dict[str, Any]]) -> dict[str, str]:
        answers: dict[str, str] = {}
        for question in questions:
            text = await self._ask(f"treadle: {permission.question_of(question)}")
            if text is None:
                break
            answers[question["id"]] = permission.answer_of(question, text)
        return answers

    async def _ask(self, words: str) -> str | None:
        """Show words and return the next line that is typed, or None where no more come.

        A read that was begun for a question that is withdrawn by now goes on for this one; what
        it has brought already answers nothing.
        """
        _forget_what_was_typed()
        tell(words)
        if self._lines is None:
            # Only here, because most prompts are never asked anything.
            from treadle.cli.chat.lines import Lines

            self._lines = Lines()
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._lines.next())
        return await asyncio.shield(self._reading)


def _forget_what_was_typed() -> None:
    """Let what was typed before a question answer nothing."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    with contextlib.suppress(ImportError):
        import msvcrt

        while msvcrt.kbhit():  # type: ignore[attr-defined,unused-ignore]  # of Windows alone
            msvcrt.getwch()  # type: ignore[attr-defined,unused-ignore]  # of Windows alone
