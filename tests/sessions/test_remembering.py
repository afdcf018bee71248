"""The main job: what was said to an agent is known the next time, by whichever process."""

from __future__ import annotations

import json
from typing import Any

from support.daemon import daemon
from support.model_server import ModelServer, memory
from support.person import conversation, on, pair, stored


def _lines(instance: str) -> list[dict[str, Any]]:
    """Read a thread's file: whole lines, times replaced by how they look."""
    text = stored("assistant", instance).read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [_timeless(json.loads(line)) for line in text.splitlines()]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "<time>" if key in ("at", "created") else _timeless(member)
            for key, member in value.items()
        }
    return value


async def test_a_name_told_to_one_daemon_is_known_by_the_next() -> None:
    async with ModelServer(memory) as server:
        async with daemon(env=on(server)) as first:
            told = await first.request("session/prompt", pair("n", prompt="My name is Mac."))
            assert await first.end() == 0
        async with daemon(env=on(server)) as second:
            asked = await second.request("session/prompt", pair("n", prompt="What is my name?"))
            assert await second.end() == 0

    usage = {"inputTokens": 20, "outputTokens": 5}
    assert told == {
        "turn": 1,
        "text": "Your name is Mac.",
        "stopReason": "end_turn",
        "usage": usage,
        "steps": 1,
        "messages": [0, 1],
    }
    assert asked == {
        "turn": 2,
        "text": "Your name is Mac.",
        "stopReason": "end_turn",
        "usage": {"inputTokens": 40, "outputTokens": 5},
        "steps": 1,
        "messages": [2, 3],
    }
    system, *said = server.requests[1]["messages"]
    assert system["role"] == "system"
    assert said == [
        {"role": "user", "content": "My name is Mac."},
        {"role": "assistant", "content": "Your name is Mac."},
        {"role": "user", "content": "What is my name?"},
    ]


async def test_the_thread_file_holds_every_line_of_both_turns() -> None:
    async with conversation(memory) as (client, _):
        await client.request("session/prompt", pair("lines", prompt="My name is Mac."))
        await client.request("session/prompt", pair("lines", prompt="What is my name?"))
        assert await client.end() == 0

    def answer(turn: int, input_tokens: int) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": "Your name is Mac.",
            "at": "<time>",
            "turn": turn,
            "model": "test-model",
            "usage": {"input_tokens": input_tokens, "output_tokens": 5},
        }

    def end(turn: int, input_tokens: int) -> dict[str, Any]:
        return {
            "number": turn,
            "event": "end",
            "at": "<time>",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": input_tokens, "output_tokens": 5},
            "steps": 1,
        }

    assert _lines("lines") == [
        {
            "thread": {
                "version": 1,
                "agent": "assistant",
                "instance": "lines",
                "created": "<time>",
            }
        },
        {"turn": {"number": 1, "event": "start", "at": "<time>"}},
        {"role": "user", "content": "My name is Mac.", "at": "<time>", "turn": 1},
        answer(1, 20),
        {"turn": end(1, 20)},
        {"turn": {"number": 2, "event": "start", "at": "<time>", "messages": 2}},
        {"role": "user", "content": "What is my name?", "at": "<time>", "turn": 2},
        answer(2, 40),
        {"turn": end(2, 40)},
    ]


async def test_resume_creates_once_and_is_idempotent() -> None:
    async with conversation(memory) as (client, _):
        path = str(stored("assistant", "r"))
        report = {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}
        fresh = {"path": path, "messages": 0, "turns": 0}
        opened = {"created": True, "state": "idle", "thread": fresh, "report": report, "mcp": []}

        assert await client.request("session/resume", pair("r")) == opened
        assert await client.request("session/resume", pair("r")) == opened | {"created": False}
        await client.request("session/prompt", pair("r", prompt="Hello"))
        await client.request("session/close", pair("r"))
        again = await client.request("session/resume", pair("r"))
        assert again.pop("thread").pop("updatedAt").endswith("Z")
        assert again == {"created": False, "state": "idle", "report": report, "mcp": []}


async def test_a_deleted_file_starts_the_thread_afresh() -> None:
    async with conversation(memory) as (client, server):
        await client.request("session/prompt", pair("gone", prompt="My name is Mac."))
        stored("assistant", "gone").unlink()
        answer = await client.request("session/prompt", pair("gone", prompt="What is my name?"))

        assert answer["text"] == "I do not know your name."
        assert answer["messages"] == [0, 1]
        assert len(server.requests[1]["messages"]) == 2


async def test_a_damaged_thread_is_mended_and_the_resume_says_how() -> None:
    async with conversation(memory) as (client, _):
        await client.request("session/prompt", pair("hurt", prompt="My name is Mac."))
        await client.request("session/close", pair("hurt"))
        path = stored("assistant", "hurt")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:2], b"{no json\n", *lines[2:], b'{"role":"us']))

        resumed = await client.request("session/resume", pair("hurt"))
        answer = await client.request("session/prompt", pair("hurt", prompt="What is my name?"))

        assert resumed["report"] == {"quarantinedLines": 1, "tornBytes": 11, "repairedCalls": 0}
        assert answer["text"] == "Your name is Mac."
        assert b"{no json\n" in path.read_bytes()


async def test_pairs_share_nothing() -> None:
    async with conversation(memory) as (client, _):
        await client.request("session/prompt", pair("a", prompt="My name is Mac."))
        other = await client.request("session/prompt", pair("A", prompt="What is my name?"))
        slash = await client.request("session/prompt", pair("../a", prompt="What is my name?"))

        assert {other["text"], slash["text"]} == {"I do not know your name."}
