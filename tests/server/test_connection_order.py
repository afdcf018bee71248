"""The order of replies and events on a connection, however much a client sends at once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, daemon, frame
from support.line import Line
from support.person import pair
from support.waiting import PATIENCE_SECONDS
from treadle.server.connection import Connection

SEED = 20240229
SESSIONS = [f"s{number}" for number in range(8)]


def _request(request_id: object, method: str, instance: str, **params: Any) -> dict[str, Any]:
    params = pair(instance, **params)
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def _of(client: Daemon, instance: str) -> list[dict[str, Any]]:
    """Return everything that concerns a session, in the order in which it came."""
    return [
        message
        for message in client.log
        if message.get("params", {}).get("instance") == instance
        or str(message.get("id", "")).startswith(f"{instance} ")
    ]


def _short(message: dict[str, Any]) -> str:
    """Name a message: a reply by what it answers, an event by its method."""
    if "id" in message:
        return f"reply to {str(message['id']).split(' ')[1]}"
    if message["method"] == "session/state":
        return f"state {message['params']['state']}"
    return str(message["method"])


async def test_replies_and_events_of_many_sessions_keep_their_order(
    scripted: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hello")
    call = {"name": "read", "arguments": {"path": "a.txt"}}
    model = scripted({"text": "one two three", "calls": [call]}, {"text": "four five six"})
    requests = [
        _request(f"{name} {what}", method, name, **params)
        for name in SESSIONS
        for what, method, params in (
            ("resume", "session/resume", {}),
            ("first", "session/prompt", {"prompt": "Hi"}),
            ("second", "session/prompt", {"prompt": "Hi again"}),
        )
    ]
    async with daemon(env={"TREADLE_MODEL": model}, initialize=False) as client:
        await client.initialize(rootUri=tmp_path.as_uri())
        await client.raw(b"".join(map(frame, requests)))
        await client.until(lambda: len(client.strays) == len(requests))
        for name in SESSIONS:
            messages = _of(client, name)
            told = [_short(message) for message in messages]
            turn = [
                "session/delta",
                "session/toolCall",
                "session/toolResult",
                "session/delta",
                "session/done",
            ]
            once = [t for t, before in zip(told, ["", *told], strict=False) if t != before]
            without_states = [line for line in once if not line.startswith("state")]
            assert without_states == [
                "reply to resume",
                *turn,
                "reply to first",
                *turn,
                "reply to second",
            ]
            numbers = [message["params"]["seq"] for message in messages if "params" in message]
            assert numbers == list(range(1, len(numbers) + 1))
            assert told[0] == "reply to resume"
        assert await client.end() == 0


async def test_a_prompt_that_opens_its_pair_sends_its_events_before_its_reply(
    scripted: Callable[..., str],
) -> None:
    async with daemon(env={"TREADLE_MODEL": scripted({"text": "one"})}) as client:
        await client.request("session/prompt", pair("a", prompt="Hi"))
        told = [_short(message) if "method" in message else "reply" for message in client.log[1:]]
        assert told == ["state running", "session/delta", "session/done", "state idle", "reply"]


async def test_cancels_and_closes_at_random_moments_leave_one_done_before_each_reply(
    scripted: Callable[..., str],
) -> None:
    chance = random.Random(SEED)
    model = scripted({"text": "word " * 300})
    async with daemon(env={"TREADLE_MODEL": model}) as client:
        for round_number in range(20):
            name = f"r{round_number}"
            messages = [_request(f"{name} prompt", "session/prompt", name, prompt="Hi")]
            for what in chance.choices(["cancel", "close", "resume", "cancelRequest"], k=3):
                if what == "cancelRequest":
                    params = {"id": f"{name} prompt"}
                    messages.append(
                        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params}
                    )
                else:
                    number = len(messages)
                    messages.append(_request(f"{name} {what}{number}", f"session/{what}", name))
            due = sum("id" in message for message in messages)
            for message in messages:
                await client.raw(frame(message))
                seen = len(client.log) + chance.randrange(5)
                await client.until(
                    lambda seen=seen, name=name: (
                        len(client.log) >= seen or _is_answered(client, name)
                    )
                )
            await client.until(lambda name=name, due=due: _replies(client, name) == due)
            told = [_short(message) for message in _of(client, name)]
            assert told.count("reply to prompt") == 1, told
            if "session/done" not in told:
                # It was taken back before its turn could begin.
                (reply,) = [m for m in client.log if m.get("id") == f"{name} prompt"]
                assert reply["error"]["code"] == -32800
                assert not any(line.startswith("session/") for line in told), told
                continue
            assert told.count("session/done") == 1, told
            end = told.index("session/done")
            assert end < told.index("reply to prompt"), told
            assert "session/delta" not in told[end:], told
        assert await client.end() == 0


def _replies(client: Daemon, name: str) -> int:
    return sum("id" in message for message in _of(client, name))


def _is_answered(client: Daemon, name: str) -> bool:
    return any(message.get("id") == f"{name} prompt" for message in client.log)


async def test_a_connection_that_has_ended_hears_no_more_and_another_one_does(
    scripted: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_MODEL", scripted({"text": "one two"}))
    line = Line(tmp_path)
    heard: list[dict[str, Any]] = []
    other = Connection(
        line.folders,
        lambda: line.runtime,
        send=lambda body: heard.append(json.loads(body)),
        on_shutdown=line.runtime.close,
    )
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    other.receive(json.dumps(hello).encode())
    line.send(id=1, method="session/resume", params=pair("a"))
    other.receive(json.dumps(_request(1, "session/resume", "a")).encode())
    await line.reply(1)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await other.close()
    count = len(heard)
    line.send(id=2, method="session/prompt", params=pair("a", prompt="Hi"))
    assert (await line.reply(2))["result"]["text"] == "one two"
    numbers = [message["params"]["seq"] for message in line.log if "params" in message]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(heard) == count
    await line.end()
