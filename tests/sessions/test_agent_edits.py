"""An agent's file between two turns: edited, broken, deleted; and threads that stay in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.daemon import RpcError
from support.model_server import Answer, memory
from support.person import by_text, conversation, pair, write_agent, write_config
from treadle.folders import DATA_VARIABLE


def _everything_below(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def test_an_edited_file_reaches_the_next_turn_of_an_open_session() -> None:
    write_agent("scribe", "You are brief.", tools="[]")
    async with conversation(memory) as (client, server):
        await client.request("session/prompt", pair("e", "scribe", prompt="My name is Mac."))
        write_agent("scribe", "You are long-winded.", model="other", tools="[read]")
        answer = await client.request("session/prompt", pair("e", "scribe", prompt="My name?"))

    first, second = server.requests
    assert answer["text"] == "Your name is Mac."
    assert first["messages"][0] == {"role": "system", "content": "You are brief."}
    assert second["messages"][0] == {"role": "system", "content": "You are long-winded."}
    assert (first["model"], second["model"]) == ("test-model", "other")
    assert "tools" not in first
    assert [tool["function"]["name"] for tool in second["tools"]] == ["read"]


async def test_a_stricter_file_binds_an_open_session(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden\n", encoding="utf-8")
    write_agent("reader", sandbox="local", cwd=tmp_path)
    reading = Answer(calls=[("read", {"path": "secret.txt"})])
    async with conversation(by_text({})) as (client, server):
        server._answer = lambda request: (
            Answer("Done.") if request["messages"][-1]["role"] == "tool" else reading
        )
        await client.request("session/prompt", pair("s", "reader", prompt="Read it"))
        write_agent("reader", sandbox="virtual")
        await client.request("session/prompt", pair("s", "reader", prompt="Read it"))
        write_agent("reader", sandbox="local", cwd=tmp_path, max_turns=1)
        last = await client.request("session/prompt", pair("s", "reader", prompt="Read it"))

    assert [one["ok"] for one in client.of("session/toolResult")] == [True, False, True]
    assert last["stopReason"] == "max_turns"


async def test_a_broken_file_keeps_its_last_good_meaning_and_is_listed_as_a_problem() -> None:
    path = write_agent("steady", "You are the good one.")
    async with conversation(memory) as (client, server):
        await client.request("session/prompt", pair("b", "steady", prompt="Hello"))
        write_agent("steady", "You are the broken one.", permissions="everything")
        answer = await client.request("session/prompt", pair("b", "steady", prompt="Hello"))
        listed = await client.request("agent/list")
        write_agent("steady", "You are mended.")
        await client.request("session/prompt", pair("b", "steady", prompt="Hello"))
        mended = await client.request("agent/list")

    assert answer["stopReason"] == "end_turn"
    assert [one["messages"][0]["content"] for one in server.requests] == [
        "You are the good one.",
        "You are the good one.",
        "You are mended.",
    ]
    [problem] = listed["problems"]
    assert problem["path"] == str(path)
    assert "permissions" in problem["message"]
    assert "steady" in [agent["name"] for agent in listed["agents"]]
    assert mended["problems"] == []


async def test_a_deleted_file_is_an_unknown_agent_until_it_is_back() -> None:
    path = write_agent("fleeting")
    async with conversation(memory) as (client, _):
        await client.request("session/prompt", pair("d", "fleeting", prompt="My name is Mac."))
        path.unlink()
        with pytest.raises(RpcError) as unknown:
            await client.request("session/prompt", pair("d", "fleeting", prompt="My name?"))
        write_agent("fleeting")
        answer = await client.request("session/prompt", pair("d", "fleeting", prompt="My name?"))

    assert unknown.value.data == {"reason": "unknown_agent"}
    assert answer["text"] == "Your name is Mac."
    assert (answer["turn"], answer["messages"]) == (2, [2, 3])


async def test_durability_in_memory_remembers_for_the_daemon_s_life_and_leaves_nothing() -> None:
    write_config('[sessions]\ndurability = "memory"\n')
    async with conversation(memory) as (client, _):
        resumed = await client.request("session/resume", pair("m"))
        await client.request("session/prompt", pair("m", prompt="My name is Mac."))
        await client.request("session/close", pair("m"))
        listed = (await client.request("session/list"))["sessions"]
        read = (await client.request("session/read", pair("m")))["messages"]
        again = await client.request("session/resume", pair("m"))
        answer = await client.request("session/prompt", pair("m", prompt="What is my name?"))
        assert await client.end() == 0
    async with conversation(memory) as (client, _):
        forgotten = await client.request("session/prompt", pair("m", prompt="What is my name?"))

    assert (resumed["created"], again["created"]) == (True, False)
    assert resumed["thread"] == {"messages": 0, "turns": 0}
    assert [(one["state"], one["messages"], one.get("heldBy")) for one in listed] == [
        ("closed", 2, None)
    ]
    assert [one["content"] for one in read] == ["My name is Mac.", "Your name is Mac."]
    assert (answer["text"], answer["turn"]) == ("Your name is Mac.", 2)
    assert forgotten["text"] == "I do not know your name."
    assert _everything_below(Path(os.environ[DATA_VARIABLE])) == []
