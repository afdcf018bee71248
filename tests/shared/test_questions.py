"""Questions of a session that several clients watch: who is asked, and whose answer counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from support.approving import (
    PERMISSION,
    QUESTIONS,
    answer,
    asked,
    careful_agent,
    client_that,
    decisions,
    here,
    withdrawn,
    write,
)
from support.daemon import Daemon
from support.shared import connected

PERMITTING = client_that(requestPermission=True, ask=True)
LEAVING = client_that(requestPermission=True, cancelOnDisconnect=True)


class Clients:
    """Clients of the shared daemon that watch one session."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def watching(self, capabilities: dict[str, Any] = PERMITTING) -> Daemon:
        client = await self.there(capabilities)
        await client.request("session/attach", here())
        return client

    async def there(self, capabilities: dict[str, Any] = PERMITTING) -> Daemon:
        client = await self._stack.enter_async_context(connected(initialize=False))
        await client.initialize(capabilities=capabilities)
        return client


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with AsyncExitStack() as stack:
        yield Clients(stack)


async def settled(client: Daemon) -> dict[str, Any]:
    """Wait for the end of a question; return it."""
    await client.until(lambda: bool(client.of("session/settled")))
    (params,) = client.of("session/settled")
    return params


async def is_asked(*clients: Daemon) -> None:
    for client in clients:
        await client.until(lambda client=client: bool(client.asked))


async def test_an_approval_answered_in_one_client_closes_in_the_others(
    clients: Clients, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    script = await clients.there({})
    one, two = await clients.watching(), await clients.watching()
    running = script.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    assert asked(one) == asked(two)
    question = asked(one)[0]["question"]
    answer(two, 0, outcome="allow_once")
    assert (await running)["text"] == "Done."
    assert (work / "a.txt").exists()
    for client in (script, one, two):
        told = await settled(client)
        assert (told["id"], told["outcome"]) == (question, "allow_once")
        (open_,) = client.of("session/asked")
        assert (open_["id"], open_["method"]) == (question, PERMISSION)
    await one.until(lambda: withdrawn(one) == [one.asked[0]["id"]])
    assert withdrawn(two) == []
    # A late answer is nobody's any more, and the session goes on.
    answer(one, 0, outcome="deny")
    assert (await one.request("session/prompt", here(prompt="Hi", maxTurns=1)))["turn"] == 2
    assert decisions()[:2] == [("write", "asked", ""), ("write", "allow_once", "client")]


async def test_the_first_of_two_answers_counts(clients: Clients, tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    one, two = await clients.watching(), await clients.watching()
    running = one.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    answer(one, 0, outcome="deny")
    answer(two, 0, outcome="deny")
    await running
    assert (await settled(one))["outcome"] == "deny"
    assert not (work / "a.txt").exists()


async def test_what_a_client_was_asked_that_goes_away_waits_for_whoever_comes(
    clients: Clients, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    first = await clients.there()
    first.ask("session/prompt", here(prompt="Go"))
    await is_asked(first)
    first.process.kill()
    await first.wait()
    # Nobody is there; the question stays open, and whoever attaches sees it and is asked.
    late = await clients.there()
    seen = await late.request("session/attach", here())
    (pending,) = seen["snapshot"]["pending"]
    assert (pending["method"], pending["params"]["question"]) == (PERMISSION, pending["id"])
    assert seen["snapshot"]["state"] == "waiting"
    await is_asked(late)
    assert asked(late)[0]["call"] == pending["params"]["call"]
    answer(late, 0, outcome="allow_once")
    await late.until(lambda: bool(late.of("session/done")))
    assert (work / "a.txt").exists()


async def test_what_a_client_says_no_to_that_cannot_answer_is_up_to_the_others(
    clients: Clients, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    one, two = await clients.watching(), await clients.watching()
    running = one.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    one.send({"jsonrpc": "2.0", "id": one.asked[0]["id"], "error": {"code": -32601, "message": ""}})
    answer(two, 0, outcome="allow_once")
    assert (await running)["text"] == "Done."
    assert (work / "a.txt").exists()


async def test_where_everybody_says_that_they_cannot_the_answer_is_no(
    clients: Clients, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    one, two = await clients.watching(), await clients.watching()
    running = one.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    for client in (one, two):
        number = client.asked[0]["id"]
        client.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": ""}})
    assert (await running)["text"] == "Done."
    assert not (work / "a.txt").exists()
    assert (await settled(one))["outcome"] == "unanswered"
    assert decisions() == [("write", "asked", ""), ("write", "deny", "nobody")]


@pytest.mark.parametrize("method", ["session/cancel", "session/close"])
async def test_a_question_that_is_moot_is_withdrawn_from_everybody(
    method: str, clients: Clients, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    one, two = await clients.watching(), await clients.watching()
    running = one.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    await two.request(method, here())
    assert (await running)["stopReason"] in ("cancelled", "closed")
    for client in (one, two):
        assert (await settled(client))["outcome"] == "withdrawn"
        await client.until(lambda client=client: bool(withdrawn(client)))
    assert not (work / "a.txt").exists()


async def test_a_client_that_detaches_is_asked_no_more(clients: Clients, tmp_path: Path) -> None:
    careful_agent(tmp_path, [write("a.txt")])
    one, two = await clients.watching(), await clients.watching()
    running = one.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    await two.request("session/detach", here())
    await two.until(lambda: bool(withdrawn(two)))
    answer(one, 0, outcome="deny")
    await running
    assert two.of("session/settled") == []


async def test_a_model_s_question_is_answered_by_whoever_is_first(
    clients: Clients, tmp_path: Path
) -> None:
    question = {"name": "ask", "arguments": {"questions": [{"id": "1", "text": "Which one?"}]}}
    careful_agent(tmp_path, [question])
    script = await clients.there({})
    one, two = await clients.watching(), await clients.watching()
    running = script.ask("session/prompt", here(prompt="Go"))
    await is_asked(one, two)
    (wanted,) = asked(two, QUESTIONS)[0]["questions"]
    answer(two, 0, answers={wanted["id"]: "The blue one."})
    await running
    assert (await settled(one))["outcome"] == "answered"
    await one.until(lambda: bool(withdrawn(one)))


async def test_the_question_of_a_client_that_takes_its_turns_along_ends_with_it(
    clients: Clients, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    watcher = await clients.watching({})
    script = await clients.there(LEAVING)
    script.ask("session/prompt", here(prompt="Go"))
    await is_asked(script)
    script.process.kill()
    await watcher.until(lambda: bool(watcher.of("session/done")))
    assert not (work / "a.txt").exists()


async def test_nobody_at_all_answers_and_the_deadline_is_a_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: Clients
) -> None:
    # The daemon is the one that `connect` starts, so its bound is set where it starts.
    customize = tmp_path / "site"
    customize.mkdir()
    (customize / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'serve' in sys.argv:\n"
        "    import treadle.runtime.respondent as respondent\n"
        "    respondent.APPROVAL_SECONDS = 1.0\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{customize}:{Path(__file__).parents[2] / 'daemon'}")
    work = careful_agent(tmp_path, [write("a.txt")])
    watcher = await clients.watching({})
    first = await clients.there()
    first.ask("session/prompt", here(prompt="Go"))
    await is_asked(first)
    first.process.kill()
    await watcher.until(lambda: bool(watcher.of("session/done")))
    assert (await settled(watcher))["outcome"] == "unanswered"
    assert not (work / "a.txt").exists()
    assert decisions() == [("write", "asked", ""), ("write", "deny", "deadline")]
