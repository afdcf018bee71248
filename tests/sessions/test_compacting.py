"""Compaction as clients see it: by itself, asked for, cancelled, and after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, Request
from support.person import conversation, on, pair, write_agent
from support.small_window import (
    LONG,
    SUMMARY,
    counter,
    is_summary,
    summing_up,
    told,
    write_counting,
)

MARK = "[treadle summary of what was said before]\n"


def pairs(client: Daemon) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the ids of compactions that were told to begin, and ids and outcomes of ends."""
    begun = [one["id"] for one in client.of("session/compacting")]
    return begun, [(one["id"], one["outcome"]) for one in client.of("session/compacted")]


async def read(client: Daemon, view: str = "full") -> list[dict[str, Any]]:
    page = await client.request("session/read", counter(view=view))
    assert "nextCursor" not in page
    return list(page["messages"])


def seen(request: Request) -> list[str]:
    """Return what a model was told, without instructions."""
    return [message["content"] for message in request["messages"][1:]]


class Slow:
    """A summary that begins and waits until it may go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def __call__(self) -> Answer:
        return Answer(SUMMARY, pause_after=1, go_on=self.go_on)


async def test_a_long_conversation_compacts_by_itself_and_goes_on() -> None:
    write_counting()
    async with conversation(summing_up()) as (client, server):
        await told(client, 12)
        begun, ended = pairs(client)
        assert begun and ended == [(one, "completed") for one in begun]
        compacting, compacted = (
            client.of("session/compacting")[0],
            client.of("session/compacted")[0],
        )
        assert (compacting["trigger"], compacting["turn"]) == ("threshold", compacted["turn"])
        assert compacted["tokens"]["after"] < compacted["tokens"]["before"] == compacting["tokens"]
        assert compacted["summary"].startswith("## Objective\nCount apples.")
        last = seen(server.requests[-1])
        assert last[0].startswith(MARK) and last[-1] == f"11 {LONG}"
        assert not any(text.startswith("0 ") for text in last)
        # The whole of it is there, and marked.
        messages = await read(client)
        assert [one["content"] for one in messages if one["role"] == "user"] == [
            f"{number} {LONG}" for number in range(12)
        ]
        given_up = {one["ordinal"] for one in messages if one.get("compacted")}
        told_of = {at for one in client.of("session/compacted") for at in one["gaveUp"]}
        assert given_up == told_of


async def test_a_turn_that_compacts_tells_it_between_its_state_and_its_end() -> None:
    write_counting()
    async with conversation(summing_up()) as (client, _):
        number = 0
        while not client.of("session/compacted"):
            client.events.clear()
            await told(client, 1, number)
            number += 1
        names = [event["method"].removeprefix("session/") for event in client.events]
        assert [name for name in names if name != "delta"] == [
            "state", "compacting", "compacted", "done", "state",
        ]  # fmt: skip
        assert [event["params"]["seq"] for event in client.events] == sorted(
            event["params"]["seq"] for event in client.events
        )


async def test_a_client_has_a_conversation_compacted() -> None:
    write_counting()
    async with conversation(summing_up()) as (client, server):
        await told(client, 4)
        client.events.clear()
        result = await client.request("session/compact", counter(instructions="Keep basket-7741."))
        assert [event["method"] for event in client.events] == [
            "session/state",
            "session/compacting",
            "session/compacted",
            "session/state",
        ]
        states = [event["state"] for event in client.of("session/state")]
        assert states == ["running", "idle"]
        compacted = client.of("session/compacted")[0]
        assert result == {key: compacted[key] for key in result}
        assert set(result) == {"id", "outcome", "strategies", "tokens"}
        assert (result["outcome"], result["strategies"][-1]["name"]) == ("completed", "summarize")
        assert "turn" not in compacted
        asked = server.requests[-1]
        assert is_summary(asked) and "Keep basket-7741." in asked["messages"][1]["content"]
        view = await read(client, "model")
        assert view[0]["made"] == "summary" and "ordinal" not in view[0]
        await told(client, 1, 4)
        assert seen(server.requests[-1])[0] == view[0]["content"]


async def test_a_tiny_conversation_is_left_as_it_is() -> None:
    write_counting()
    async with conversation(summing_up()) as (client, server):
        await client.request("session/prompt", counter(prompt="Hi"))
        before = await read(client)
        result = await client.request("session/compact", counter())
        assert result["outcome"] == "declined"
        assert result["tokens"]["before"] == result["tokens"]["after"]
        assert pairs(client) == ([result["id"]], [(result["id"], "declined")])
        assert await read(client) == before
        assert not any(map(is_summary, server.requests))


async def test_a_pair_that_is_not_open_and_has_no_thread_is_opened() -> None:
    write_counting()
    async with conversation(summing_up()) as (client, _):
        assert (await client.request("session/compact", counter()))["outcome"] == "declined"
        assert (await client.request("session/resume", counter()))["created"] is False


async def test_an_unknown_agent_has_nothing_to_compact() -> None:
    async with conversation(summing_up()) as (client, _):
        with pytest.raises(RpcError) as error:
            await client.request("session/compact", counter())
        assert error.value.reason == "unknown_agent"
        assert pairs(client) == ([], [])


async def test_it_waits_for_the_turn_that_runs_and_the_next_prompt_waits_for_it() -> None:
    write_counting()
    slow, summary = asyncio.Event(), Slow()

    def answer(request: Request) -> Answer:
        if "Wait" in request["messages"][-1]["content"]:
            return Answer("Waited for.", pause_after=1, go_on=slow)
        return summing_up(summary)(request)

    async with conversation(answer) as (client, server):
        await told(client, 4)
        turn = client.ask("session/prompt", counter(prompt="Wait"))
        await client.until(lambda: bool(client.of("session/state")[-1]["state"] == "running"))
        compacting = client.ask("session/compact", counter())
        after = client.ask("session/prompt", counter(prompt="After"))
        await client.until(lambda: client.of("session/state")[-1]["queued"] == 1)
        assert pairs(client) == ([], [])
        slow.set()
        assert (await turn)["text"] == "Waited for."
        await server.until(lambda: is_summary(server.requests[-1]))
        assert not after.done()
        with pytest.raises(RpcError) as busy:
            await client.request("session/prompt", counter(prompt="Now", whenBusy="reject"))
        assert busy.value.reason == "busy"
        summary.go_on.set()
        assert (await compacting)["outcome"] == "completed"
        assert (await after)["text"] == "Re After"
        assert seen(server.requests[-1])[0].startswith(MARK)


@pytest.mark.parametrize("by", ["session/cancel", "session/close", "$/cancelRequest"])
async def test_one_that_is_stopped_leaves_all_as_it_was(by: str) -> None:
    write_counting()
    summary = Slow()
    async with conversation(summing_up(summary)) as (client, server):
        await told(client, 4)
        before = await read(client)
        compacting = client.ask("session/compact", counter())
        await server.until(lambda: is_summary(server.requests[-1]))
        if by == "$/cancelRequest":
            client.notify(by, {"id": compacting.request_id})  # type: ignore[attr-defined]
            with pytest.raises(RpcError) as cancelled:
                await compacting
            assert cancelled.value.code == -32800
        else:
            stopped = await client.request(by, counter())
            assert stopped["cancelled" if by == "session/cancel" else "closed"] is True
            result = await compacting
            assert result["outcome"] == "cancelled"
            assert result["tokens"]["before"] == result["tokens"]["after"]
        begun, ended = pairs(client)
        assert len(begun) == 1 and ended == [(begun[0], "cancelled")]
        assert await read(client) == before
        summary.go_on.set()
        result = await client.request("session/prompt", counter(prompt="Still there?"))
        assert result["text"] == "Re Still there?"
        assert seen(server.requests[-1])[0] == f"0 {LONG}"


async def test_one_that_waits_is_taken_back_without_a_word() -> None:
    write_counting()
    slow = asyncio.Event()
    async with conversation(lambda _: Answer("Done.", pause_after=1, go_on=slow)) as (client, _):
        turn = client.ask("session/prompt", counter(prompt="Wait"))
        await client.until(lambda: bool(client.of("session/state")))
        compacting = client.ask("session/compact", counter(workDoneToken="t"))
        await client.until(lambda: bool(client.of("$/progress")))
        client.notify("window/workDoneProgress/cancel", {"token": "t"})
        assert await compacting == {
            "outcome": "cancelled", "strategies": [], "tokens": {"before": 0, "after": 0},
        }  # fmt: skip
        slow.set()
        assert (await turn)["text"] == "Done."
        assert pairs(client) == ([], [])


async def test_a_cancel_without_a_compaction_or_of_a_turn_stops_none() -> None:
    write_counting()
    summary = Slow()
    async with conversation(summing_up(summary)) as (client, server):
        await told(client, 4)
        compacting = client.ask("session/compact", counter())
        await server.until(lambda: is_summary(server.requests[-1]))
        cancelled = await client.request("session/cancel", counter(turn=4))
        assert cancelled == {"cancelled": False}
        summary.go_on.set()
        assert (await compacting)["outcome"] == "completed"
        assert await client.request("session/cancel", counter()) == {"cancelled": False}


async def test_what_a_kill_ends_in_the_middle_never_was() -> None:
    write_counting()
    summary = Slow()
    async with ModelServer(summing_up(summary)) as server:
        async with daemon(env=on(server)) as client:
            await told(client, 4)
            before = await read(client)
            compacting = client.ask("session/compact", counter())
            await server.until(lambda: is_summary(server.requests[-1]))
            client.process.kill()
            with pytest.raises(EOFError):
                await compacting
        async with daemon(env=on(server)) as client:
            resumed = await client.request("session/resume", counter())
            assert resumed["report"] == {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}
            assert await read(client) == before
            summary.go_on.set()
            assert (await client.request("session/compact", counter()))["outcome"] == "completed"


async def test_a_daemon_that_starts_anew_goes_on_from_the_compaction() -> None:
    write_counting()
    async with ModelServer(summing_up()) as server:
        async with daemon(env=on(server)) as client:
            await told(client, 4)
            await client.request("session/compact", counter())
            view = await read(client, "model")
            assert await client.end() == 0
        async with daemon(env=on(server)) as client:
            assert await read(client, "model") == view
            await told(client, 1, 4)
            assert seen(server.requests[-1]) == [*(one["content"] for one in view), f"4 {LONG}"]


async def test_a_compaction_is_a_progress_from_its_begin_to_its_end() -> None:
    write_counting()
    async with conversation(summing_up()) as (client, _):
        await told(client, 4)
        result = await client.request("session/compact", counter(workDoneToken=0))
        tokens = result["tokens"]
        said = f"compacted: {tokens['before']:,} to {tokens['after']:,} tokens"
        assert [one["value"] for one in client.of("$/progress")] == [
            {"kind": "begin", "title": "compacting counter · a", "cancellable": True},
            {
                "kind": "report",
                "message": f"compacting a conversation of {tokens['before']:,} tokens",
            },
            {"kind": "report", "message": said},
            {"kind": "end", "message": said},
        ]


@pytest.mark.parametrize(
    "arguments",
    [[{"agent": "counter", "instance": "a"}], ["counter", "a"], ["counter", "a", "Keep", "it"]],
)
async def test_an_editor_compacts_by_a_command(arguments: list[Any]) -> None:
    write_counting()
    async with conversation(summing_up()) as (client, server):
        await told(client, 4)
        command = {"command": "treadle.session.compact", "arguments": arguments}
        result = await client.request("workspace/executeCommand", command)
        assert result["outcome"] == "completed"
        shown = client.of("window/showMessage")[-1]["message"]
        assert shown.startswith("Compacted: ") and shown.endswith(" tokens.")
        asked = next(filter(is_summary, server.requests))["messages"][1]["content"]
        assert ("Keep it" in asked) == (len(arguments) > 2)


async def test_another_model_at_the_same_endpoint_sums_up() -> None:
    write_counting(summary_model="small-model")
    async with conversation(summing_up()) as (client, server):
        await told(client, 4)
        await client.request("session/compact", counter())
        models = {(is_summary(request), request["model"]) for request in server.requests}
        assert models == {(False, "test-model"), (True, "small-model")}


async def test_a_failing_summariser_ends_neither_the_compaction_nor_the_session() -> None:
    write_counting()
    broken = summing_up(lambda: Answer(status=400, error={"message": "no"}))
    async with conversation(broken) as (client, _):
        await told(client, 12)
        begun, ended = pairs(client)
        assert begun and ended == [(one, "completed") for one in begun]
        strategies = client.of("session/compacted")[0]["strategies"]
        assert [one["name"] for one in strategies][-2:] == ["summarize", "sliding_window"]
        assert strategies[-2]["problem"]


async def test_what_a_sub_agent_compacts_is_told_as_its_tasks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(LONG)
    front = {"tools": "[read, task]", "sandbox": "local", "cwd": tmp_path}
    write_agent("boss", "You lead.", **front)
    write_agent("counter", "You count.", compaction="{window: 5000}", **front)
    task = {"prompt": "Count.", "agent": "counter"}

    def answer(request: Request) -> Answer:
        if is_summary(request):
            return Answer(SUMMARY)
        messages = request["messages"]
        if messages[0]["content"] == "You lead.":
            has_ended = messages[-1]["role"] == "tool"
            return Answer("Led.") if has_ended else Answer(calls=[("task", task)])
        count = len(server.requests)
        if count > 20:
            return Answer("Counted.")
        return Answer(calls=[("read", {"path": "a.txt"})], call_prefix=f"c{count}-")

    async with conversation(answer) as (client, server):
        done = await client.request("session/prompt", pair("a", "boss", prompt="Go."))
        assert done["text"] == "Led."
        begun, ended = pairs(client)
        assert begun and ended == [(one, "completed") for one in begun]
        told_of = client.of("session/compacting") + client.of("session/compacted")
        assert {(one["agent"], one["instance"], one["task"]) for one in told_of} == {
            ("boss", "a", 1)
        }
