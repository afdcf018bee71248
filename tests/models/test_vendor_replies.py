"""What each vendor's own words are told as: too long, too fast, unpaid, no key, overloaded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.model_peer import model_peer
from support.model_server import Answer
from support.vendor_replies import REPLIES, VendorReply, told
from treadle.errors import (
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelStreamBroken,
)
from treadle.models import windows


@pytest.fixture(autouse=True)
def _nothing_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_learnt", {})


async def test_each_vendors_reply_is_told_as_what_it_is() -> None:
    answers = [Answer(status=reply.status, error=reply.text) for reply in REPLIES]
    assert await _told(REPLIES, answers) == _expected(REPLIES)


async def test_what_calls_for_another_deed_is_told_as_such_also_inside_a_stream() -> None:
    kinds = ("overflow", "slow_down", "too_large_alone", "quota")
    replies = [reply for reply in told(*kinds) if not isinstance(reply.body, str)]
    answers = [Answer("Half a", raw_events=[_event(reply.body)]) for reply in replies]
    assert await _told(replies, answers) == _expected(replies)


def test_the_table_holds_the_replies_of_many_vendors() -> None:
    assert len(REPLIES) >= 80
    assert len({str(reply) for reply in REPLIES}) == len(REPLIES)
    assert len({reply.vendor.partition("-")[0] for reply in REPLIES}) >= 30
    assert {reply.status for reply in told("overflow")} == {400, 402, 413, 422, 429, 500}


Told = dict[str, tuple[type[ModelError], dict[str, Any], bool]]


async def _told(replies: list[VendorReply], answers: list[Answer]) -> Told:
    seen: Told = {}
    async with model_peer(*answers) as peer:
        for reply in replies:
            with pytest.raises(ModelError) as raised:
                await peer.ask()
            seen[str(reply)] = (type(raised.value), raised.value.data, raised.value.may_pass)
    return seen


def _expected(replies: list[VendorReply]) -> Told:
    return {str(reply): (reply.kind, reply.data, reply.may_pass) for reply in replies}


def _event(body: Any) -> str:
    """Return a reply as an event of a stream, in which an error is always in an `error`."""
    is_whole = isinstance(body, list) or "error" in body
    return json.dumps(body if is_whole else {"error": body})


@pytest.mark.parametrize(
    ("event", "kind", "data"),
    [
        (  # vLLM sends it without an `error` around it
            {
                "object": "error",
                "message": "This model's maximum context length is 4096 tokens. However, you "
                "requested 5000 tokens (4000 in the messages, 1000 in the completion).",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            },
            ContextOverflow,
            {"window": 4096, "asked_tokens": 5000},
        ),
        (  # Anthropic's own form
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            ModelStreamBroken,
            {"partial": "Half a"},
        ),
        (  # OpenRouter sends a whole chunk
            {
                "id": "gen-1",
                "object": "chat.completion.chunk",
                "error": {"code": 429, "message": "Rate limit exceeded"},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            },
            ModelRateLimited,
            {},
        ),
        (
            {"error": {"code": "invalid_api_key", "message": "Incorrect API key provided"}},
            ModelAuth,
            {},
        ),
        ({"error": "the model crashed"}, ModelStreamBroken, {"partial": "Half a"}),
    ],
)
async def test_an_error_in_a_stream_is_known_in_whichever_form(
    event: dict[str, Any], kind: type[ModelError], data: dict[str, Any]
) -> None:
    raised = await _failure(Answer("Half a", raw_events=[json.dumps(event)]))
    assert (type(raised), raised.data) == (kind, data)


async def test_an_error_that_is_sent_with_the_status_200_is_one_all_the_same() -> None:
    body = {"error": {"message": "prompt is too long: 210 tokens > 200000 maximum", "code": 400}}
    raised = await _failure(Answer(status=200, error=json.dumps(body)))
    assert (type(raised), raised.data) == (
        ContextOverflow,
        {"window": 200_000, "asked_tokens": 210},
    )


async def test_an_answer_that_is_no_stream_and_no_error_is_still_told_as_broken() -> None:
    raised = await _failure(Answer(status=200, error='{"choices": []}'))
    assert type(raised) is ModelStreamBroken


async def test_a_window_that_is_full_before_the_answers_first_word_is_an_overflow() -> None:
    raised = await _failure(Answer("", finish_reason="model_context_window_exceeded"))
    assert type(raised) is ContextOverflow


async def test_a_window_that_is_full_in_mid_answer_cuts_it_short() -> None:
    answer = Answer("Half an answer", finish_reason="model_context_window_exceeded")
    async with model_peer(answer) as peer:
        said = await peer.ask()
    assert said.text == "Half an answer"
    assert peer.done[0].stop_reason == "max_tokens"


async def test_the_window_that_a_reply_names_is_known_from_then_on() -> None:
    assert windows.window_of("m") is None
    await _failure(Answer(status=400, error=told("overflow")[0].text))
    assert windows.window_of("m") == 8192


async def test_a_reply_that_echoes_the_conversation_is_not_taken_for_what_that_says() -> None:
    echo = "Could not parse: " + "x" * 3_000 + " maximum context length is 8192 tokens"
    raised = await _failure(Answer(status=400, error={"message": echo}))
    assert raised.data == {"status": 400}


async def test_a_header_says_better_than_words_when_to_come_back() -> None:
    error = {"message": "Rate limit reached. Please try again in 20ms."}
    raised = await _failure(Answer(status=429, error=error, headers={"Retry-After": "3"}))
    assert raised.data == {"retry_after_seconds": 3.0}
    raised = await _failure(Answer(status=429, error=error))
    assert raised.data == {"retry_after_seconds": 0.02}


async def _failure(answer: Answer) -> ModelError:
    async with model_peer(answer) as peer:
        with pytest.raises(ModelError) as raised:
            await peer.ask()
    return raised.value
