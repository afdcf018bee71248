"""Answers that stop before their end: what is kept of them, and what a person is told."""

from __future__ import annotations

from typing import Any

import pytest

from support.model_peer import model_peer
from support.model_server import Answer, ModelServer, in_order
from treadle.errors import (
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelStreamBroken,
    ModelUnreachable,
    StorageDegraded,
)
from treadle.models.openai import stream
from treadle.models.openai.client import open_client
from treadle.thread.message import Message

Kind = type[ModelError]


async def test_silence_before_the_answer_is_a_time_out() -> None:
    async with model_peer(Answer("Late", delay_seconds=60), timeout_seconds=0.05) as peer:
        with pytest.raises(ModelUnreachable, match="did not answer in time") as raised:
            await peer.ask()
        await peer.server.until(lambda: peer.server.open_connections == 0)
    assert (raised.value.data, peer.said) == ({}, [])


async def test_silence_within_the_answer_breaks_the_stream_and_keeps_its_text() -> None:
    async with model_peer(Answer(["One ", "two"], pause_after=1), timeout_seconds=0.2) as peer:
        with pytest.raises(ModelStreamBroken, match="ReadTimeout") as raised:
            await peer.ask()
        await peer.server.until(lambda: peer.server.open_connections == 0)
    assert raised.value.data == {"partial": "One "}
    assert peer.said == [Message("assistant", "One ", model="m", partial=True)]


@pytest.mark.parametrize(
    "fault",
    [
        {"drop_after": 2},
        {"finish_reason": None},
        {"finish_reason": None, "done": False},
        {"broken_chunk": True},
        {"raw_events": ["[]"]},
        {"raw_events": ["nonsense"]},
        {"raw_events": ["[" * 100_000]},
        {"stream_error": {"message": "upstream died", "code": 502}},
        {"stream_error": {"message": "invalid", "code": "bad_thing"}},
        {"stream_error": "upstream died"},
    ],
    ids=lambda fault: str(fault)[:60],
)
async def test_an_answer_that_stops_before_its_end_is_broken_and_its_text_is_kept(
    fault: dict[str, Any],
) -> None:
    answer = Answer(["One ", "two"], reasoning="Hm.", calls=[("now", {})], **fault)
    if answer.drop_after is not None:
        answer.drop_after += 1  # the reasoning comes first
    async with model_peer(answer) as peer:
        with pytest.raises(ModelStreamBroken) as raised:
            await peer.ask()
    assert raised.value.data == {"partial": "One two"}
    assert peer.said == [Message("assistant", "One two", reasoning="Hm.", model="m", partial=True)]
    assert (peer.done[0].stop_reason, peer.done[0].error) == ("error", raised.value)


async def test_a_broken_answer_without_text_leaves_no_message() -> None:
    async with model_peer(Answer(calls=[("now", {})], finish_reason=None)) as peer:
        with pytest.raises(ModelStreamBroken) as raised:
            await peer.ask()
    assert (raised.value.data, peer.said) == ({"partial": ""}, [])


async def test_a_disk_that_fails_does_not_hide_why_the_answer_broke() -> None:
    class FullDisk:
        async def append(self, message: Message) -> Message:
            raise StorageDegraded("the disk is full", path="thread.jsonl")

    async with model_peer(Answer("One", finish_reason=None)) as peer:
        peer.agent.on("model_call", lambda env, _: setattr(env, "thread", FullDisk()))
        with pytest.raises(ModelStreamBroken) as raised:
            await peer.ask()
    assert (raised.value.data, peer.said) == ({"partial": "One"}, [])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "slow down", "code": 429}, ModelRateLimited),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, ModelRateLimited),
        ({"message": "used up", "type": "insufficient_quota"}, ModelRateLimited),
        ({"message": "no", "status": 401}, ModelAuth),
        ({"message": "no", "status_code": "403"}, ModelAuth),
        ({"message": "long", "code": "context_length_exceeded"}, ContextOverflow),
        ({"message": "Context size has been exceeded."}, ContextOverflow),
    ],
    ids=str,
)
async def test_an_error_inside_the_stream_that_says_plainly_what_it_is_keeps_its_kind(
    error: dict[str, Any], kind: Kind
) -> None:
    async with model_peer(Answer("One", stream_error=error)) as peer:
        with pytest.raises(ModelError) as raised:
            await peer.ask()
    assert type(raised.value) is kind
    assert peer.said == [Message("assistant", "One", model="m", partial=True)]


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_a_page_in_place_of_a_stream_says_that_the_address_may_be_wrong(kind: str) -> None:
    answer = Answer(error="{}\n\nSign in, please.", headers={"Content-Type": kind})
    async with model_peer(answer) as peer:
        with pytest.raises(ModelStreamBroken, match=f"{kind}.*base_url"):
            await peer.ask()


async def test_a_connection_works_again_after_each_failure() -> None:
    answers = (
        Answer(status=500),
        Answer("x", broken_chunk=True),
        Answer("x", drop_after=1),
        Answer("Well again."),
    )
    async with model_peer(*answers) as peer:
        for _ in range(3):
            with pytest.raises(ModelError):
                await peer.ask()
        assert (await peer.ask()).text == "Well again."


async def test_a_connection_that_ends_as_it_is_used_again_costs_nobody_a_turn() -> None:
    answers = (Answer("One."), Answer(hang_up=True), Answer("Two."))
    async with model_peer(*answers) as peer:
        assert [(await peer.ask()).text, (await peer.ask()).text] == ["One.", "Two."]
        assert len(peer.server.requests) == 3


async def test_a_server_that_hangs_up_twice_is_unreachable() -> None:
    async with model_peer(Answer(hang_up=True), Answer(hang_up=True)) as peer:
        with pytest.raises(ModelUnreachable):
            await peer.ask()
    assert peer.said == []


async def test_leaving_a_stream_early_closes_its_socket() -> None:
    async with ModelServer(in_order(Answer(["a", "b"], pause_after=1))) as server:
        client = await open_client(server.base_url, "", 10)
        chunks = stream.stream_chat(client, b'{"messages":[]}', model="m")
        assert await anext(chunks)
        assert server.open_requests == 1
        await chunks.aclose()
        await server.until(lambda: server.open_connections == 0)
        await client.close()
