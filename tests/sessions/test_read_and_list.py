"""`session/read` and `session/list`: what a client sees of threads, page by page."""

from __future__ import annotations

import os
from itertools import chain
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import ModelServer, memory
from support.person import conversation, on, pair, stored, write_agent


async def _told(client: Daemon, instance: str, turns: int) -> None:
    for number in range(turns):
        await client.request("session/prompt", pair(instance, prompt=f"Note {number}"))


async def _pages(client: Daemon, method: str, member: str, **params: Any) -> list[list[Any]]:
    pages, cursor = [], None
    while True:
        result = await client.request(method, {**params, "cursor": cursor})
        pages.append(result[member])
        cursor = result.get("nextCursor")
        if cursor is None:
            return pages


async def test_a_thread_is_read_in_pages_oldest_first_with_ordinals() -> None:
    async with conversation(memory) as (client, _):
        await _told(client, "r", 3)
        whole = await client.request("session/read", pair("r"))
        pages = await _pages(client, "session/read", "messages", **pair("r", limit=4))
        await client.request("session/close", pair("r"))
        closed = await client.request("session/read", pair("r"))

    assert [len(page) for page in pages] == [4, 2]
    assert [*chain.from_iterable(pages)] == whole["messages"]
    assert closed == whole
    assert [message["ordinal"] for message in whole["messages"]] == [0, 1, 2, 3, 4, 5]
    first, second = whole["messages"][:2]
    at = first.pop("at"), second.pop("at")
    assert all(time.endswith("Z") for time in at)
    assert first == {"ordinal": 0, "role": "user", "content": "Note 0", "turn": 1}
    assert second == {
        "ordinal": 1,
        "role": "assistant",
        "content": "I do not know your name.",
        "turn": 1,
        "model": "test-model",
        "usage": {"inputTokens": 20, "outputTokens": 5},
    }


async def test_the_model_view_is_what_is_sent_each_message_with_its_ordinal() -> None:
    async with conversation(memory) as (client, server):
        await _told(client, "v", 2)
        view = (await client.request("session/read", pair("v", view="model")))["messages"]
        await _told(client, "v", 1)

    assert [message["ordinal"] for message in view] == [0, 1, 2, 3]
    said = [{"role": one["role"], "content": one["content"]} for one in view]
    assert said == server.requests[-1]["messages"][1:-1]


@pytest.mark.parametrize("cursor", ["", "-1", "x", "1.5", "٣", "9" * 19])
async def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    async with daemon() as client:
        for method in ("session/read", "session/list"):
            with pytest.raises(RpcError) as refused:
                await client.request(method, pair("c", cursor=cursor))
            assert (refused.value.code, refused.value.data) == (-32602, {"path": "cursor"})


@pytest.mark.parametrize("limit", [0, 1001, -1, "5"])
async def test_a_limit_out_of_range_is_refused(limit: object) -> None:
    async with daemon() as client:
        for method in ("session/read", "session/list"):
            with pytest.raises(RpcError) as refused:
                await client.request(method, pair("c", limit=limit))
            assert (refused.value.code, refused.value.data["path"]) == (-32602, "limit")


async def test_nothing_is_read_of_a_pair_that_is_not_there() -> None:
    async with daemon() as client:
        with pytest.raises(RpcError) as unknown:
            await client.request("session/read", pair("nobody"))

    assert (unknown.value.code, unknown.value.reason) == (-32803, "unknown_session")
    assert not stored("assistant", "nobody").exists()


async def test_sessions_are_listed_newest_first_open_or_stored() -> None:
    write_agent("other")
    async with conversation(memory) as (client, _):
        for instance in ("one", "two", "three"):
            await _told(client, instance, 1)
        await client.request("session/prompt", pair("x", "other", prompt="Hello"))
        await client.request("session/close", pair("two"))
        await _told(client, "one", 1)
        listed = (await client.request("session/list"))["sessions"]
        pages = await _pages(client, "session/list", "sessions", limit=3)
        others = (await client.request("session/list", {"agent": "other"}))["sessions"]
        pid = client.process.pid

    assert [*chain.from_iterable(pages)] == listed
    assert [len(page) for page in pages] == [3, 1]
    times = [session.pop("updatedAt") for session in listed]
    assert times == sorted(times, reverse=True)
    assert listed == [
        {**pair("one"), "state": "idle", "messages": 4, "heldBy": pid},
        {**pair("x", "other"), "state": "idle", "messages": 2, "heldBy": pid},
        {**pair("three"), "state": "idle", "messages": 2, "heldBy": pid},
        {**pair("two"), "state": "closed", "messages": 2},
    ]
    assert [(one["agent"], one["instance"]) for one in others] == [("other", "x")]


async def test_an_open_session_whose_file_is_gone_has_its_place_in_the_list() -> None:
    async with conversation(memory) as (client, _):
        await _told(client, "first", 1)
        await _told(client, "second", 1)
        await _told(client, "third", 1)
        os.unlink(stored("assistant", "second"))  # noqa: PTH108 - as a person would, from outside
        listed = (await client.request("session/list"))["sessions"]

    assert [session["instance"] for session in listed] == ["third", "second", "first"]


async def test_another_daemon_reads_and_lists_what_is_held() -> None:
    async with (
        ModelServer(memory) as server,
        daemon(env=on(server)) as owner,
        daemon(env=on(server)) as reader,
    ):
        await _told(owner, "h", 1)
        read = await reader.request("session/read", pair("h"))
        listed = (await reader.request("session/list"))["sessions"]

        assert read == await owner.request("session/read", pair("h"))
        assert [(one["state"], one["heldBy"]) for one in listed] == [("closed", owner.process.pid)]
