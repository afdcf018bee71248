"""Compaction in a chat: one line when it happens, and `/compact`."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from support.waiting import PATIENCE_SECONDS
from treadle.cli.chat.conversation import Conversation
from treadle.cli.chat.items import Item, Note, Said, SpeechEnded, Status
from treadle.cli.client import Client

HERE = {"agent": "helper", "instance": "a"}
TOLD = (
    "compacted from 12,000 to 4,000 tokens; the model sees 3 messages no more or not as before, "
    "and all stay in the thread"
)
COMPACTED: dict[str, Any] = {
    **HERE,
    "id": "c",
    "outcome": "completed",
    "strategies": [],
    "tokens": {"before": 12_000, "after": 4_000},
    "messages": {"before": 9, "after": 7},
    "gaveUp": [0, 1, 2],
}


class Screen:
    """A face that keeps what it shows, and what goes on."""

    interactive = True

    def __init__(self) -> None:
        self.shown: list[Item] = []
        self.doing: list[str] = []

    def show(self, item: Item) -> None:
        if not isinstance(item, SpeechEnded):
            self.shown.append(item)

    def status(self, status: Status) -> None:
        if status.doing not in self.doing[-1:]:
            self.doing.append(status.doing)

    def offer(self, draft: str) -> None:
        pass


class Daemon:
    """Compacts by heart."""

    def __init__(self, outcome: str = "completed", error: str = "") -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.outcome, self.error = outcome, error
        self.chat: Conversation | None = None

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        self.asked.append((method, params))
        assert self.chat is not None
        end = {**COMPACTED, "outcome": self.outcome, "error": self.error}
        self.chat.take("session/state", {**HERE, "state": "running"})
        self.chat.take("session/compacting", {**HERE, "id": "c", "tokens": 12_000})
        self.chat.take("session/compacted", end)
        self.chat.take("session/state", {**HERE, "state": "idle"})
        return end


async def typed(line: str, daemon: Daemon) -> Screen:
    screen = Screen()
    daemon.chat = chat = Conversation(cast(Client, daemon), "helper", "a", screen)
    chat.submit(line)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await chat.idle()
    return screen


async def test_a_compaction_by_itself_is_one_line() -> None:
    screen = Screen()
    chat = Conversation(cast(Client, None), "helper", "a", screen)
    chat.take("session/state", {**HERE, "state": "running"})
    chat.take("session/compacting", {**HERE, "id": "c", "tokens": 12_000})
    chat.take("session/compacted", COMPACTED)
    assert screen.shown == [Note(TOLD)]
    assert screen.doing == [
        "waiting for the model",
        "compacting 12,000 tokens",
        "waiting for the model",
    ]


async def test_what_a_sub_agent_compacts_is_no_line() -> None:
    screen = Screen()
    chat = Conversation(cast(Client, None), "helper", "a", screen)
    chat.take("session/state", {**HERE, "state": "running"})
    chat.take("session/compacting", {**HERE, "id": "c", "tokens": 12_000, "task": 2})
    chat.take("session/compacted", {**COMPACTED, "task": 2})
    assert screen.shown == []
    assert screen.doing[-1] == "task 2: compacting"


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("completed", Note(TOLD)),
        ("declined", Note("not compacted: there is nothing that could go")),
        ("cancelled", Note("not compacted: cancelled")),
        ("failed", Note("not compacted: no such luck", "warning")),
    ],
)
async def test_a_person_asks_for_one_in_their_own_words_and_hears_once(
    outcome: str, told: Note
) -> None:
    daemon = Daemon(outcome, "no such luck" if outcome == "failed" else "")
    screen = await typed("/compact  don't lose Mac's address", daemon)
    assert daemon.asked == [
        ("session/compact", {**HERE, "instructions": "don't lose Mac's address"})
    ]
    assert [item for item in screen.shown if not isinstance(item, Said)] == [told]
    assert screen.doing[-1] == ""


async def test_one_that_is_asked_for_without_words_has_no_instructions() -> None:
    daemon = Daemon()
    await typed("/compact", daemon)
    assert daemon.asked == [("session/compact", {**HERE, "instructions": ""})]
