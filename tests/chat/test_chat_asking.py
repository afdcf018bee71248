"""What a chat's status line says can be typed while the person is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from treadle.cli import permission
from treadle.cli.chat.activity import Activity
from treadle.cli.chat.asking import Asking
from treadle.cli.chat.items import Item, Status
from treadle.cli.chat.statusline import status_line

# As wide as most terminals are, and too narrow for all that could be told.
WIDTH = 80

PERMIT: dict[str, Any] = {
    "agent": "inbox",
    "question": 1,
    "call": {"name": "write"},
    "detail": "write a.txt",
    "covers": "every call of write",
}
QUESTION = {"question": 2, "questions": [{"id": "1", "text": "Which colour?"}]}


class Face:
    """Keeps what it is told last."""

    interactive = True
    last = Status("", "")

    def show(self, item: Item) -> None:
        """Nobody looks."""

    def status(self, status: Status) -> None:
        self.last = status

    def offer(self, draft: str) -> None:
        """Nothing is given back here."""

    @property
    def line(self) -> str:
        return "".join(text for _, text in status_line(self.last, WIDTH))


@pytest.mark.parametrize(
    ("method", "params", "hint", "word", "result"),
    [
        (
            permission.PERMISSION,
            PERMIT,
            "y, a or n, then Enter; other words steer",
            "y",
            {"outcome": "allow_once"},
        ),
        (
            permission.QUESTIONS,
            QUESTION,
            "type your answer, then Enter",
            "red",
            {"answers": {"1": "red"}},
        ),
    ],
)
async def test_the_status_line_says_what_can_be_typed_while_something_is_asked(
    method: str, params: dict[str, Any], hint: str, word: str, result: dict[str, Any]
) -> None:
    face = Face()
    activity = Activity(face, {"agent": "inbox", "instance": "my-own-laptop"})
    activity.model = "a-model-with-a-long-name"
    asking = Asking(face, activity)
    activity.turn_runs(running=True)
    assert face.line.endswith("Enter steers · Ctrl-C cancels")
    activity.now("waiting for your answer")
    asked = activity.change()
    answer = asyncio.create_task(asking.answer(method, params))
    await asked
    assert face.line.endswith(hint)
    assert asking.take(word)
    assert await answer == result
    activity.now("running")
    assert face.line.endswith("Enter steers · Ctrl-C cancels")
