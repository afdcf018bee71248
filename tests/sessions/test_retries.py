"""A model that fails for a moment: the client sees each attempt, and the thread none of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.daemon import Daemon, RpcError
from support.model_server import Answer, Request, in_order, last_user_text
from support.person import by_text, conversation, pair, without_overhead, write_agent, write_config

LIMITED = Answer(status=429, headers={"Retry-After": "0.01"})


def _of_turn(client: Daemon) -> list[tuple[str, dict[str, Any]]]:
    """Return the turn's events without what each of them carries, joined words aside."""
    address = {"agent", "instance", "seq", "turn", "usage"}
    return [
        (each["method"], {k: v for k, v in each["params"].items() if k not in address})
        for each in client.events
        if each["method"] not in ("session/state", "session/delta")
    ]


async def _contents(client: Daemon, instance: str) -> list[str]:
    read = await client.request("session/read", pair(instance))
    return [message["content"] for message in read["messages"]]


async def test_a_rate_limit_is_waited_for_and_then_the_answer_comes() -> None:
    async with conversation(in_order(LIMITED, LIMITED, Answer("Here."))) as (client, server):
        result = await client.request("session/prompt", pair("r", prompt="Hi", maxTurns=1))
        contents = await _contents(client, "r")

    assert (result["text"], result["stopReason"], result["steps"]) == ("Here.", "end_turn", 1)
    assert _of_turn(client) == [
        (
            "session/retrying",
            {"attempt": attempt, "reason": "model_rate_limited", "retryInSeconds": 0.01},
        )
        for attempt in (1, 2)
    ] + [("session/done", {"stopReason": "end_turn", "text": "Here."})]
    assert [each["turn"] for each in client.of("session/retrying")] == [1, 1]
    assert contents == ["Hi", "Here."]
    assert len(server.requests) == 3


async def test_an_endpoint_that_is_not_there_is_tried_as_often_as_configured() -> None:
    write_config("[models]\nmax_retries = 1\n")
    write_agent("nowhere", base_url="http://127.0.0.1:1/v1")
    async with conversation(by_text({})) as (client, _):
        with pytest.raises(RpcError) as refused:
            await client.request("session/prompt", pair("n", "nowhere", prompt="Hi"))

    assert refused.value.reason == "model_unreachable"
    [retrying] = client.of("session/retrying")
    assert (retrying["attempt"], retrying["reason"]) == (1, "model_unreachable")
    assert 0.5 <= retrying["retryInSeconds"] <= 1
    assert len(client.of("session/done")) == 1


async def test_a_cancel_while_it_waits_ends_the_turn_at_once() -> None:
    answers = {"Wait": Answer(status=429, headers={"Retry-After": "60"})}
    async with conversation(by_text(answers)) as (client, server):
        running = client.ask("session/prompt", pair("c", prompt="Wait"))
        await client.until(lambda: bool(client.of("session/retrying")))
        cancelled = await client.request("session/cancel", pair("c"))
        result = await running
        after = await client.request("session/prompt", pair("c", prompt="And now?"))
        contents = await _contents(client, "c")

    assert cancelled == {"cancelled": True, "turn": 1}
    assert (result["stopReason"], result["text"], result["turn"]) == ("cancelled", "", 1)
    assert after["text"] == "Fine."
    assert contents == ["Wait", "And now?", "Fine."]
    assert len(server.requests) == 2


_NOT_TRIED_AGAIN = {
    "quota": (
        Answer(status=429, error={"code": "insufficient_quota", "message": "Pay first."}),
        {"reason": "model_rate_limited"},
    ),
    "too long a wait": (
        Answer(status=429, headers={"Retry-After": "3600"}),
        {"reason": "model_rate_limited", "retryAfterSeconds": 3600.0},
    ),
    "key": (Answer(status=401), {"reason": "model_auth", "status": 401}),
    "request": (Answer(status=400), {"reason": "model_refused_request", "status": 400}),
    "overflow": (Answer(status=413), {"reason": "context_overflow", "window": 32768}),
    "text": (
        Answer("One two three", drop_after=2),
        {"reason": "model_stream_broken", "partial": "One two"},
    ),
}


async def test_what_no_waiting_helps_and_what_was_begun_to_be_said_is_told_at_once() -> None:
    answers = {name: answer for name, (answer, _) in _NOT_TRIED_AGAIN.items()}
    async with conversation(by_text(answers)) as (client, server):
        for name, (_, data) in _NOT_TRIED_AGAIN.items():
            with pytest.raises(RpcError) as refused:
                await client.request("session/prompt", pair(name, prompt=name))
            assert (name, without_overhead(refused.value.data)) == (name, data)
        contents = await _contents(client, "text")

    assert client.of("session/retrying") == []
    assert [last_user_text(request) for request in server.requests] == list(_NOT_TRIED_AGAIN)
    assert contents == ["text", "One two"]


async def test_a_stream_that_breaks_before_its_first_word_is_tried_again() -> None:
    broken = Answer("One", drop_after=0)
    async with conversation(in_order(broken, Answer("Here."))) as (client, _):
        result = await client.request("session/prompt", pair("b", prompt="Hi"))
        contents = await _contents(client, "b")

    assert result["text"] == "Here."
    assert [each["reason"] for each in client.of("session/retrying")] == ["model_stream_broken"]
    assert contents == ["Hi", "Here."]


async def test_a_session_that_waits_for_its_model_keeps_no_other_one_waiting() -> None:
    gate = asyncio.Event()

    def answer(request: Request) -> Answer:
        if last_user_text(request) == "Limited" and not gate.is_set():
            return Answer(status=429, headers={"Retry-After": "30"})
        return Answer("Fine.")

    async with conversation(answer) as (client, _):
        limited = client.ask("session/prompt", pair("a", prompt="Limited"))
        await client.until(lambda: bool(client.of("session/retrying")))
        assert (await client.request("session/prompt", pair("b", prompt="Hi")))["text"] == "Fine."
        gate.set()
        await client.request("session/cancel", pair("a"))
        assert (await limited)["stopReason"] == "cancelled"
