"""Whom a turn asks for permission, and what becomes of the answers: runtime and clients alone."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.approving import AGENT, careful_agent, decisions, write
from support.disk import Disk
from support.sessions import Watched, ask, prompt, said
from support.waiting import Waitable
from treadle.permissions.approvals import Answer
from treadle.runtime import respondent
from treadle.runtime.client import PermissionRequest, Questions
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime
from treadle.thread.repair import NEVER_ALLOWED_TEXT

PAIR = Pair(AGENT, "test")


class Client(Waitable):
    """Whoever prompted; what it is asked waits until the test answers."""

    can_permit = can_answer = True
    has_left = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[PermissionRequest] = []
        self.answers: list[asyncio.Future[Answer | None]] = []

    async def request_permission(self, request: PermissionRequest) -> Answer | None:
        self.asked.append(request)
        self.answers.append(asyncio.get_running_loop().create_future())
        self.changed()
        return await self.answers[-1]

    async def ask(self, questions: Questions) -> Mapping[str, str] | None:
        raise OSError("no")


def denied(runtime_results: list[str]) -> list[bool]:
    return ["was not allowed" in text for text in runtime_results]


async def results(runtime: Runtime) -> list[str]:
    return [message.text for message in await said(runtime, PAIR) if message.role == "tool"]


async def test_the_one_whose_turn_it_is_is_asked_and_nobody_who_joined_it(
    runtime: Runtime, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    first, second = Client(), Client()
    running = ask(runtime, "Go", PAIR, client=first)
    await first.until(lambda: bool(first.asked))
    joined = ask(runtime, "Me too", PAIR, client=second, when_busy="steer")
    assert first.asked[0].pair == PAIR and first.asked[0].turn == 1
    first.answers[0].set_result("allow_once")
    await running
    await joined
    assert second.asked == []
    assert (work / "a.txt").exists()


async def test_a_client_that_goes_away_while_it_is_asked_has_said_no_and_the_turn_goes_on(
    runtime: Runtime, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    client = Client()
    running = ask(runtime, "Go", PAIR, client=client)
    await client.until(lambda: bool(client.asked))
    client.answers[0].set_result(None)
    assert (await running).text == "Done."
    assert denied(await results(runtime)) == [True]
    assert decisions() == [("write", "asked", ""), ("write", "deny", "nobody")]
    assert not list(work.iterdir())


async def test_a_client_that_breaks_has_said_no(runtime: Runtime, tmp_path: Path) -> None:
    question = {"name": "ask", "arguments": {"questions": [{"id": "1", "text": "?"}]}}
    careful_agent(tmp_path, [write("a.txt"), question])
    client = Client()
    running = ask(runtime, "Go", PAIR, client=client)
    await client.until(lambda: bool(client.asked))
    client.answers[0].set_exception(ValueError("broken"))
    assert (await running).text == "Done."
    assert decisions()[-1] == ("write", "deny", "nobody")


async def test_what_cannot_be_kept_is_not_allowed(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    disk, client = Disk(monkeypatch), Client()
    disk.only = ".jsonl"
    running = ask(runtime, "Go", PAIR, client=client)
    await client.until(lambda: bool(client.asked))
    with disk.failing(errno.ENOSPC):
        client.answers[0].set_result("allow_session")
        watched = Watched(runtime, PAIR)
        await watched.until(lambda: any(one.storage == "degraded" for one in watched.states))
    await running
    assert denied(await results(runtime)) == [True]
    assert not list(work.iterdir())


async def test_an_answer_and_a_cancel_at_the_same_moment_leave_nothing_done(
    runtime: Runtime, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    client = Client()
    running = ask(runtime, "Go", PAIR, client=client)
    await client.until(lambda: bool(client.asked))
    client.answers[0].set_result("allow_once")
    assert await runtime.session(PAIR).cancel() is not None
    assert (await running).done.stop_reason == "cancelled"
    (text,) = await results(runtime)
    assert text == NEVER_ALLOWED_TEXT
    assert not list(work.iterdir())


async def test_a_turn_that_waits_gives_its_place_to_others_and_takes_it_again(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(respondent, "APPROVAL_SECONDS", 0.01)
    careful_agent(tmp_path, [write("a.txt")])
    client = Client()
    assert (await ask(runtime, "Go", PAIR, client=client)).text == "Done."
    slots = await runtime.services.turn_slots()
    assert decisions()[-1] == ("write", "deny", "deadline")
    # As many as there are, and no more: none was lost, and none given back twice.
    for _ in range(8):
        assert not slots.locked()
        await slots.acquire()
    assert slots.locked()
    for _ in range(8):
        slots.release()


async def test_a_turn_that_nobody_waits_for_asks_whoever_began_it(
    runtime: Runtime, tmp_path: Path
) -> None:
    careful_agent(tmp_path, [write("a.txt")])
    client, watched = Client(), Watched(runtime, PAIR)
    await runtime.session(PAIR).steer(prompt("Go", client=client))
    await client.until(lambda: bool(client.asked))
    client.answers[0].set_result("deny")
    await watched.until(lambda: bool(watched.done))
    assert decisions()[-1] == ("write", "deny", "client")
