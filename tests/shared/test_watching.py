"""Several clients on one session of the shared daemon: what each of them sees of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer
from support.person import stored, write_agent
from support.scripts import scripted_agent
from support.shared import connected, kill_daemon
from support.waiting import PATIENCE_SECONDS

NAME = "talker"
PAIR = {"agent": NAME, "instance": "one"}

WORDS = " ".join(f"word{number}" for number in range(40))

# After so many of them the model waits for the test.
SAID_FIRST = 6


def talker(*replies: dict[str, Any]) -> None:
    scripted_agent(NAME, *replies)


@asynccontextmanager
async def slow_talker() -> AsyncIterator[asyncio.Event]:
    """Write an agent that stops in the middle of each answer; it goes on at the event."""
    go_on = asyncio.Event()
    answer = partial(Answer, WORDS, pause_after=SAID_FIRST, go_on=go_on)
    async with ModelServer(lambda request: answer()) as server:
        write_agent(NAME, model="test-model", base_url=server.base_url)
        yield go_on


def heard(client: Daemon) -> list[tuple[str, int]]:
    """Return the numbered events that a client heard of the session, in order."""
    return [
        (event["method"], event["params"]["seq"])
        for event in client.events
        if event["params"].get("instance") == "one" and event["method"] != "session/said"
    ]


def numbers(client: Daemon) -> list[int]:
    """Return the numbers that a client's events account for; joined deltas stand for several."""
    found: list[int] = []
    for event in client.events:
        params = event["params"]
        if params.get("instance") == "one" and event["method"] != "session/said":
            found += range(params["seq"] - params.get("joined", 1) + 1, params["seq"] + 1)
    return found


def rests(client: Daemon) -> bool:
    """Whether the last that a client heard is the end of the turn."""
    states = [params["state"] for params in client.of("session/state")]
    return bool(client.of("session/done")) and states[-1:] == ["idle"]


def text(client: Daemon) -> str:
    return "".join(params["text"] for params in client.of("session/delta"))


async def test_two_clients_and_a_script_see_the_same_events_in_the_same_order() -> None:
    talker({"text": "Hello there, all of you."})
    async with connected() as one, connected() as two, connected() as script:
        for watcher in (one, two):
            seen = await watcher.request("session/attach", PAIR)
            assert seen["truncated"] is False
            assert seen["snapshot"] == {
                "state": "closed",
                "queued": 0,
                "storage": "ok",
                "messages": [],
                "said": [],
                "pending": [],
            }
        result = await script.request("session/prompt", {**PAIR, "prompt": "Hi."})
        for client in (one, two, script):
            await client.until(lambda client=client: rests(client))
        assert heard(one) == heard(two) == heard(script)
        assert text(one) == text(two) == result["text"]
        # Who did not say it learns what was said, and who did is not told.
        (said,) = one.of("session/said")
        assert (said["text"], said["turn"]) == ("Hi.", 1)
        assert two.of("session/said") == [said]
        assert script.of("session/said") == []


async def test_whoever_comes_in_the_middle_sees_what_was_said_and_then_the_rest_once() -> None:
    async with slow_talker() as go_on, connected() as script, connected() as late:
        turn = script.ask("session/prompt", {**PAIR, "prompt": "Talk."})
        await script.until(lambda: len(script.of("session/delta")) == SAID_FIRST)
        seen = await late.request("session/attach", PAIR)
        shown = seen["snapshot"]
        assert (shown["state"], shown["turn"]) == ("running", 1)
        assert [message["content"] for message in shown["messages"]] == ["Talk."]
        assert shown["said"] == [{"kind": "text", "text": text(script)}]
        go_on.set()
        result = await turn
        await late.until(lambda: bool(late.of("session/done")))
        assert "".join(part["text"] for part in shown["said"]) + text(late) == result["text"]
        assert numbers(late) == list(range(seen["seq"] + 1, numbers(script)[-1] + 1))


async def test_whoever_comes_back_hears_what_was_missed_and_nothing_twice() -> None:
    async with slow_talker() as go_on, connected() as script:
        async with connected() as first:
            begun = await first.request("session/attach", PAIR)
            turn = script.ask("session/prompt", {**PAIR, "prompt": "Talk."})
            await first.until(lambda: len(first.of("session/delta")) == SAID_FIRST)
            last, before, told = numbers(first)[-1], text(first), numbers(first)
        go_on.set()
        await turn
        async with connected() as again:
            seen = await again.request(
                "session/attach", {**PAIR, "since": last, "epoch": begun["epoch"]}
            )
            assert (seen["seq"], seen["epoch"], seen["truncated"]) == (last, begun["epoch"], False)
            assert "snapshot" not in seen
            await again.until(lambda: bool(again.of("session/done")))
            assert told + numbers(again) == list(range(told[0], numbers(script)[-1] + 1))
            assert (
                "".join(part["text"] for part in begun["snapshot"]["said"]) + before + text(again)
                == (await turn)["text"]
            )


@pytest.mark.parametrize(
    "since", [{"since": 10**6}, {"since": 0, "epoch": "of another life"}, {"since": 1, "epoch": ""}]
)
async def test_whoever_was_away_for_too_long_gets_a_snapshot_and_is_told(
    since: dict[str, Any],
) -> None:
    talker({"text": "Hello."})
    async with connected() as client:
        await client.request("session/prompt", {**PAIR, "prompt": "Hi."})
        count = len(client.events)
        seen = await client.request("session/attach", {**PAIR, **since})
        assert seen["truncated"] is True
        assert seen["snapshot"]["state"] == "idle"
        assert seen["seq"] == numbers(client)[-1]
        assert len(client.events) == count


async def test_a_detached_client_hears_no_more_until_it_prompts() -> None:
    talker({"text": "Hello."})
    async with connected() as one, connected() as two:
        await one.request("session/attach", PAIR)
        assert await one.request("session/detach", PAIR) == {"detached": True}
        assert await one.request("session/detach", PAIR) == {"detached": False}
        await two.request("session/prompt", {**PAIR, "prompt": "Hi."})
        assert heard(one) == []
        await one.request("session/prompt", {**PAIR, "prompt": "Me."})
        assert text(one) == "Hello."
        last = one.of("session/done")[-1]["seq"]
        await two.until(lambda: last in numbers(two))


async def test_a_watcher_hears_of_a_session_that_is_closed_and_opened_anew() -> None:
    talker({"text": "Hello."})
    async with connected() as one, connected() as two:
        await one.request("session/attach", PAIR)
        for _ in range(2):
            await two.request("session/prompt", {**PAIR, "prompt": "Hi."})
            await two.request("session/close", PAIR)
        await one.until(lambda: len(heard(one)) == len(heard(two)))
        assert heard(one) == heard(two)
        assert numbers(one) == list(range(1, numbers(two)[-1] + 1))
        assert [params["state"] for params in one.of("session/state")][-1] == "closed"


async def test_to_attach_opens_nothing_and_leaves_nothing() -> None:
    talker({"text": "Hello."})
    async with connected() as client:
        await client.request("session/attach", PAIR)
        assert (await client.request("session/list"))["sessions"] == []
        assert (await client.request("daemon/status"))["sessions"]["open"] == 0
    assert not exists(stored(NAME, "one"))


def exists(path: Path) -> bool:
    return path.exists()


async def test_a_client_that_goes_away_ends_no_turn_and_what_was_said_is_kept() -> None:
    async with slow_talker() as go_on, connected() as watcher:
        await watcher.request("session/attach", PAIR)
        async with connected() as script:
            script.ask("session/prompt", {**PAIR, "prompt": "Talk."})
            script.ask("session/prompt", {**PAIR, "prompt": "And again."})
            await watcher.until(lambda: bool(watcher.of("session/delta")))
            script.process.kill()
        await clients_are(1, watcher)
        go_on.set()
        await watcher.until(lambda: len(watcher.of("session/done")) == 2)
        assert [done["stopReason"] for done in watcher.of("session/done")] == ["end_turn"] * 2
        assert text(watcher) == WORDS * 2


async def test_a_client_that_says_so_takes_its_turns_with_it() -> None:
    leaving = {"experimental": {"treadle": {"cancelOnDisconnect": True}}}
    async with slow_talker(), connected() as watcher:
        await watcher.request("session/attach", PAIR)
        async with connected(initialize=False) as script:
            await script.initialize(capabilities=leaving)
            script.ask("session/prompt", {**PAIR, "prompt": "Talk."})
            await watcher.until(lambda: bool(watcher.of("session/delta")))
            script.process.kill()
        await watcher.until(lambda: bool(watcher.of("session/done")))
        assert watcher.of("session/done")[0]["stopReason"] == "cancelled"


async def test_shutdown_and_exit_end_the_connection_and_nothing_else() -> None:
    async with slow_talker() as go_on, connected() as watcher:
        await watcher.request("session/attach", PAIR)
        async with connected() as script:
            script.ask("session/prompt", {**PAIR, "prompt": "Talk."})
            await watcher.until(lambda: bool(watcher.of("session/delta")))
            await script.request("shutdown")
            with pytest.raises(RpcError):
                await script.request("session/list")
            script.notify("exit")
            assert await script.wait() == 0
        go_on.set()
        await watcher.until(lambda: bool(watcher.of("session/done")))
        assert watcher.of("session/done")[0]["stopReason"] == "end_turn"


async def test_a_client_that_does_not_read_holds_up_nobody() -> None:
    talker({"text": "x" * 200 + " word" * 3000})
    async with connected() as deaf, connected() as script, connected() as watcher:
        for client in (deaf, watcher):
            await client.request("session/attach", PAIR)
        deaf.reading.clear()
        for _ in range(5):
            await script.request("session/prompt", {**PAIR, "prompt": "Talk."})
        await watcher.until(lambda: len(watcher.of("session/done")) == 5)
        deaf.reading.set()
        await deaf.until(lambda: len(deaf.of("session/done")) == 5)
        assert text(deaf) == text(watcher)
        assert numbers(deaf) == numbers(watcher)


async def test_killed_in_the_middle_bridges_report_it_and_threads_are_whole() -> None:
    async with slow_talker(), connected(stderr=asyncio.subprocess.PIPE) as client:
        turn = client.ask("session/prompt", {**PAIR, "prompt": "My name is Mac."})
        await client.until(lambda: len(client.of("session/delta")) == SAID_FIRST)
        pid = kill_daemon()
        with pytest.raises(EOFError):
            await turn
        assert await client.wait() == 69
        assert client.process.stderr is not None
        told = await client.process.stderr.read()
        assert f"the shared daemon (pid {pid}) has ended".encode() in told
    talker({"text": "You are Mac."})
    async with connected() as client:
        resumed = await client.request("session/resume", PAIR)
        assert resumed["report"]["interruptedTurn"] == 1
        read = (await client.request("session/read", PAIR))["messages"]
        assert [one["content"] for one in read if one["role"] == "user"] == ["My name is Mac."]
        assert (await client.request("session/prompt", {**PAIR, "prompt": "Who am I?"}))[
            "text"
        ] == "You are Mac."


async def clients_are(count: int, client: Daemon) -> None:
    """Wait until the daemon has so many clients."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await client.request("daemon/status"))["clients"] != count:
            pass


async def test_a_sidecar_and_the_shared_daemon_share_a_data_folder_by_thread() -> None:
    talker({"text": "Hello."})
    async with connected() as shared, daemon() as sidecar:
        pid = (await shared.request("daemon/status"))["pid"]
        await shared.request("session/prompt", {**PAIR, "prompt": "Hi."})
        with pytest.raises(RpcError) as locked:
            await sidecar.request("session/prompt", {**PAIR, "prompt": "Hi."})
        assert (locked.value.reason, locked.value.data["pid"]) == ("thread_locked", pid)
        other = {**PAIR, "instance": "two"}
        assert (await sidecar.request("session/prompt", {**other, "prompt": "Hi."}))["text"]
        with pytest.raises(RpcError) as locked:
            await shared.request("session/prompt", {**other, "prompt": "Hi."})
        assert locked.value.data["pid"] == sidecar.process.pid
