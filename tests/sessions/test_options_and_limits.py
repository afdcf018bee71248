"""A session's options narrow what its agent has; `maxTurns` bounds one prompt's model calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError
from support.model_server import Answer, Request, memory
from support.person import conversation, pair, stored, write_agent


async def _refusal(client: Daemon, method: str, params: dict[str, Any]) -> tuple[int, Any]:
    with pytest.raises(RpcError) as refused:
        await client.request(method, params)
    return refused.value.code, refused.value.data


def _always_calls(request: Request) -> Answer:
    return Answer(calls=[("read", {"path": "notes.txt"})])


async def test_options_that_ask_for_more_than_the_agent_has_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write_agent("bound", sandbox="local", cwd=home, tools="[]", max_turns=3, model="scripted:x")
    asked: dict[str, Any] = {
        "cwd": str(tmp_path),
        "tools": ["read"],
        "permissions": "auto",
        "maxTurns": 4,
        "model": "gpt-9",
    }
    async with conversation(memory) as (client, _):
        for field, value in asked.items():
            expected = (-32803, {"reason": "would_widen", "field": field})
            params = pair("w", "bound", options={field: value})
            assert await _refusal(client, "session/resume", params) == expected
            params["prompt"] = "Hello"
            assert await _refusal(client, "session/prompt", params) == expected
        params = pair("w", "bound", prompt="Hello", maxTurns=4)
        expected = (-32803, {"reason": "would_widen", "field": "maxTurns"})
        assert await _refusal(client, "session/prompt", params) == expected
    done = client.of("session/done")
    assert [event["error"]["data"]["reason"] for event in done] == ["would_widen"] * 6


async def test_nothing_is_made_for_a_session_that_was_refused() -> None:
    async with conversation(memory) as (client, _):
        params = pair("never", options={"permissions": "auto"})
        await _refusal(client, "session/resume", params)

        assert not stored("assistant", "never").exists()
        assert (await client.request("session/list"))["sessions"] == []


async def test_an_unknown_option_is_no_option() -> None:
    async with conversation(memory) as (client, _):
        params = pair("u", options={"colour": "red"})
        code, data = await _refusal(client, "session/resume", params)

        assert (code, data) == (-32602, {"path": "options.colour"})


async def test_an_open_session_says_which_option_differs(tmp_path: Path) -> None:
    async with conversation(memory) as (client, _):
        opened = {"cwd": str(tmp_path), "tools": ["read"], "maxTurns": 2}
        await client.request("session/resume", pair("d", options=opened))

        await client.request("session/resume", pair("d"))
        await client.request("session/resume", pair("d", options=opened))
        for field, wanted, is_ in [
            ("tools", [], ["read"]),
            ("maxTurns", 1, 2),
            ("cwd", str(tmp_path / "x"), str(tmp_path)),
            ("model", "other", None),
        ]:
            expected = {"reason": "options_differ", "field": field, "is": is_, "wanted": wanted}
            params = pair("d", options={field: wanted})
            assert await _refusal(client, "session/resume", params) == (-32803, expected)
            params["prompt"] = "Hello"
            assert await _refusal(client, "session/prompt", params) == (-32803, expected)
        await client.request("session/close", pair("d"))
        await client.request("session/resume", pair("d", options={"maxTurns": 1}))


@pytest.mark.parametrize(
    ("agent", "options", "prompt", "calls"),
    [
        (None, {}, {"maxTurns": 1}, 1),
        (None, {}, {"maxTurns": 3}, 3),
        (2, {}, {}, 2),
        (3, {}, {"maxTurns": 2}, 2),
        (3, {"maxTurns": 1}, {}, 1),
        (None, {}, {}, 25),
    ],
)
async def test_a_prompt_makes_at_most_so_many_model_calls(
    agent: int | None, options: dict[str, int], prompt: dict[str, int], calls: int
) -> None:
    write_agent("caller", **({"max_turns": agent} if agent else {}))
    async with conversation(_always_calls) as (client, server):
        await client.request("session/resume", pair("m", "caller", options=options))
        result = await client.request("session/prompt", pair("m", "caller", prompt="Go", **prompt))
        messages = (await client.request("session/read", pair("m", "caller")))["messages"]

    assert (result["stopReason"], result["steps"]) == ("max_turns", calls)
    assert len(server.requests) == calls
    assert [one["role"] for one in messages] == ["user"] + ["assistant", "tool"] * calls
    assert messages[0]["content"] == "Go"


async def test_a_prompt_beyond_the_daemon_s_own_most_is_refused() -> None:
    async with conversation(memory) as (client, _):
        params = pair("m", prompt="Go", maxTurns=101)
        expected = (-32803, {"reason": "would_widen", "field": "maxTurns"})
        assert await _refusal(client, "session/prompt", params) == expected


async def test_options_reach_the_model(tmp_path: Path) -> None:
    async with conversation(memory) as (client, server):
        options = {"model": "small", "tools": [], "cwd": str(tmp_path)}
        await client.request("session/prompt", pair("o", prompt="Hello", options=options))

    assert server.requests[0]["model"] == "small"
    assert "tools" not in server.requests[0]
