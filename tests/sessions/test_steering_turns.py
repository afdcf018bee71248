"""What a person says while a turn runs, through the daemon: it enters, or begins a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import by_text, conversation, on, pair, write_agent, write_config


class _Slow:
    """A model that says one word and waits, once; then it answers at once."""

    def __init__(self) -> None:
        self.first = Answer("One two", pause_after=1)
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Answer:
        self.asked.append(last_user_text(request))
        return self.first if len(self.asked) == 1 else Answer(f"Re {self.asked[-1]}")

    def go_on(self) -> None:
        self.first.go_on.set()


async def _running(client: Daemon, instance: str = "s", **members: Any) -> asyncio.Future[Any]:
    """Prompt, and wait for the first word of the answer."""
    reply = client.ask("session/prompt", pair(instance, prompt="Count", **members))
    await client.until(lambda: bool(client.of("session/delta", instance)))
    return reply


async def _has_begun(client: Daemon) -> None:
    """Know that what was sent has begun: requests begin in the order of their arrival."""
    await client.request("session/list")


async def _told(client: Daemon, instance: str = "s") -> list[tuple[str, str, int]]:
    read = await client.request("session/read", pair(instance))
    return [(each["role"], each["content"], each["turn"]) for each in read["messages"]]


async def test_text_enters_the_running_turn_which_goes_on_with_it() -> None:
    slow = _Slow()
    async with conversation(slow) as (client, _):
        running = await _running(client)
        answers = [
            await client.request("session/steer", pair("s", text="And then?")),
            await client.request("session/steer", pair("s", text="Go on.", expectedTurn=1)),
        ]
        slow.go_on()
        result = await running
        told = await _told(client)

    assert answers == [{"injected": True, "turn": 1}] * 2
    assert (result["turn"], result["text"], result["steps"]) == (1, "Re Go on.", 2)
    assert result["messages"] == [0, 4]
    assert told == [
        ("user", "Count", 1),
        ("assistant", "One two", 1),
        ("user", "And then?", 1),
        ("user", "Go on.", 1),
        ("assistant", "Re Go on.", 1),
    ]
    assert len(client.of("session/done")) == 1


async def test_text_that_meets_no_turn_begins_one_that_is_told_by_events() -> None:
    async with conversation(by_text({})) as (client, _):
        answer = await client.request("session/steer", pair("s", text="Hello"))
        await client.until(lambda: bool(client.of("session/done")))
        told = await _told(client)

    assert answer == {"startedTurn": True}
    reply = next(place for place, each in enumerate(client.log) if each.get("result") == answer)
    events = [place for place, each in enumerate(client.log) if "method" in each]
    assert reply < events[0]
    assert [(each["turn"], each["text"]) for each in client.of("session/done")] == [(1, "Fine.")]
    assert told == [("user", "Hello", 1), ("assistant", "Fine.", 1)]


async def test_an_expected_turn_that_does_not_run_gets_no_text() -> None:
    slow = _Slow()
    async with conversation(slow) as (client, _):
        with pytest.raises(RpcError) as nothing:
            await client.request("session/steer", pair("s", text="Hi", expectedTurn=1))
        running = await _running(client)
        with pytest.raises(RpcError) as other:
            await client.request("session/steer", pair("s", text="Hi", expectedTurn=2))
        slow.go_on()
        await running
        with pytest.raises(RpcError) as over:
            await client.request("session/steer", pair("s", text="Hi", expectedTurn=1))
        told = await _told(client)

    assert (nothing.value.code, nothing.value.data) == (-32803, {"reason": "not_running"})
    assert other.value.data == {"reason": "wrong_turn", "active": 1}
    assert over.value.data == {"reason": "not_running"}
    assert [content for _, content, _ in told] == ["Count", "One two"]


async def test_a_prompt_that_enters_a_turn_is_answered_by_that_turn() -> None:
    slow = _Slow()
    async with conversation(slow) as (client, _):
        running = await _running(client)
        entering = client.ask(
            "session/prompt", pair("s", prompt="More", whenBusy="steer", maxTurns=1)
        )
        queued = client.ask("session/prompt", pair("s", prompt="Behind"))
        await client.until(lambda: client.of("session/state")[-1]["queued"] == 1)
        slow.go_on()
        results = [await running, await entering]
        behind = await queued
        idle = await client.request("session/prompt", pair("s", prompt="Idle", whenBusy="steer"))

    assert results[0] == results[1]
    assert (results[0]["turn"], results[0]["text"], results[0]["steps"]) == (1, "Re More", 2)
    assert (behind["turn"], behind["text"]) == (2, "Re Behind")
    assert (idle["turn"], idle["text"]) == (3, "Re Idle")
    assert [each["turn"] for each in client.of("session/done")] == [1, 2, 3]


async def test_cancelling_a_prompt_that_entered_a_turn_stops_that_turn() -> None:
    slow = _Slow()
    async with conversation(slow) as (client, _):
        running = await _running(client)
        entering = client.ask("session/prompt", pair("s", prompt="More", whenBusy="steer"))
        await _has_begun(client)
        client.notify("$/cancelRequest", {"id": entering.request_id})  # type: ignore[attr-defined]  # see Daemon.ask
        with pytest.raises(RpcError) as cancelled:
            await entering
        result = await running
        told = await _told(client)

    assert cancelled.value.code == -32800
    assert (result["stopReason"], result["turn"]) == ("cancelled", 1)
    assert told == [("user", "Count", 1), ("assistant", "One", 1), ("user", "More", 1)]
    assert len(client.of("session/done")) == 1


async def test_a_prompt_that_enters_a_turn_may_not_want_other_options() -> None:
    slow = _Slow()
    async with conversation(slow) as (client, _):
        running = await _running(client, options={"maxTurns": 5})
        members = {"prompt": "More", "whenBusy": "steer"}
        with pytest.raises(RpcError) as differs:
            await client.request("session/prompt", pair("s", **members, options={"maxTurns": 4}))
        entering = client.ask("session/prompt", pair("s", **members, options={"maxTurns": 5}))
        await _has_begun(client)
        slow.go_on()
        assert await entering == await running

    assert differs.value.data == {
        "reason": "options_differ",
        "field": "maxTurns",
        "is": 5,
        "wanted": 4,
    }


async def test_text_is_said_while_tools_run_and_after_their_results(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello", encoding="utf-8")
    write_agent("reader", sandbox="local", cwd=str(tmp_path))
    gate = asyncio.Event()

    def answer(request: Request) -> Answer:
        if request["messages"][-1]["role"] == "user" and len(request["messages"]) == 2:
            return Answer("Look", calls=[("read", {"path": "a"})], pause_after=2, go_on=gate)
        return Answer(f"Re {last_user_text(request)}")

    async with conversation(answer) as (client, server):
        running = client.ask("session/prompt", pair("t", "reader", prompt="Read"))
        await client.until(lambda: bool(client.of("session/delta")))
        await client.request("session/steer", pair("t", "reader", text="Be brief."))
        gate.set()
        result = await running

    assert [each["role"] for each in server.requests[1]["messages"]] == [
        *("system", "user", "assistant", "tool", "user")
    ]
    assert result["text"] == "Re Be brief."


async def test_text_that_says_nothing_is_refused_and_a_stranger_is_an_error() -> None:
    async with conversation(by_text({})) as (client, _):
        with pytest.raises(RpcError) as empty:
            await client.request("session/steer", pair("s", text="  "))
        with pytest.raises(RpcError) as stranger:
            await client.request("session/steer", pair("s", "asistant", text="Hello"))
        listed = await client.request("session/list")

    assert (empty.value.code, empty.value.data) == (-32602, {"path": "text"})
    assert stranger.value.reason == "unknown_agent"
    [done] = client.of("session/done")
    assert done["error"]["data"] == {"reason": "unknown_agent"}
    assert listed == {"sessions": []}


async def test_an_idle_session_that_was_let_go_takes_text_as_ever() -> None:
    write_config("[sessions]\nidle_seconds = 0.02\n")
    async with conversation(by_text({})) as (client, _):
        await client.request("session/prompt", pair("i", prompt="One"))
        for number in range(2, 6):
            await _until_let_go(client, "i")
            await client.request("session/steer", pair("i", text=f"Word {number}"))
            await client.until(lambda number=number: len(client.of("session/done")) == number)
        told = await _told(client, "i")

    assert [turn for _, _, turn in told] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert {each["stopReason"] for each in client.of("session/done")} == {"end_turn"}


async def _until_let_go(client: Daemon, instance: str) -> None:
    """Ask until no process holds the session's thread."""
    async with asyncio.timeout(30):
        while True:
            [listed] = (await client.request("session/list"))["sessions"]
            if listed["instance"] == instance and "heldBy" not in listed:
                return


async def test_a_key_runs_once_also_for_a_client_that_asks_after_a_close() -> None:
    async with ModelServer(by_text({})) as server, daemon(env=on(server)) as client:
        asked = pair("k", prompt="Once", key="mail-1")
        first = await client.request("session/prompt", asked)
        await client.request("session/close", pair("k"))
        second = await client.request("session/prompt", asked)
        with pytest.raises(RpcError) as other:
            await client.request("session/prompt", pair("k", prompt="Twice", key="mail-1"))
        elsewhere = await client.request("session/prompt", {**asked, "instance": "other"})
        told = await _told(client, "k")

    assert first == second
    assert (other.value.code, other.value.data) == (-32602, {"path": "key"})
    assert elsewhere["text"] == "Fine."
    assert [content for _, content, _ in told] == ["Once", "Fine."]
    assert len(server.requests) == 2


async def test_text_that_begins_a_turn_is_on_disk_when_its_reply_comes() -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    slow = _Slow()
    async with ModelServer(slow) as server, daemon(env=on(server)) as client:
        await _running(client)  # the daemon has room for no other turn
        for text in ("first", "second"):
            reply = await client.request("session/steer", pair("other", text=text))
            assert reply == ({"startedTurn": True} if text == "first" else {"injected": True})
        client.process.kill()
        await client.wait()
    async with conversation(by_text({})) as (client, _):
        await client.request("session/resume", pair("other"))
        read = await client.request("session/read", pair("other"))
    assert [one["content"] for one in read["messages"]] == ["first", "second"]
