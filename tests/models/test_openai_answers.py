"""What a person gets from an endpoint that answers, however oddly it phrases the stream."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from support.model_peer import KEY, model_peer
from support.model_server import Answer, ModelServer, in_order, last_user_text, memory
from support.waiting import PATIENCE_SECONDS
from treadle.models.completion import Delta, ToolSpec
from treadle.models.openai import OpenAICompletion, stream
from treadle.models.openai.client import Endpoint
from treadle.thread.message import Message, ToolCall, Usage
from treadle.turn.agent import Agent


async def test_text_comes_as_deltas_and_is_kept_as_one_message_with_its_usage() -> None:
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": None},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    async with model_peer(Answer("Good morning, Mac.", usage=usage)) as peer:
        message = await peer.ask()

    assert message == Message(
        "assistant", "Good morning, Mac.", model="m", usage=Usage(12, 7, 5, 3)
    )
    assert peer.deltas == [Delta("text", part) for part in ("Good", " morning,", " Mac.")]
    assert (peer.done[0].stop_reason, peer.done[0].steps) == ("end_turn", 1)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_told_apart_from_text(field: str) -> None:
    answer = Answer("Four.", reasoning=["Two and ", "two."], reasoning_field=field)
    async with model_peer(answer) as peer:
        message = await peer.ask()

    assert message == Message("assistant", "Four.", reasoning="Two and two.", model="m")
    assert peer.deltas == [
        Delta("reasoning", "Two and "),
        Delta("reasoning", "two."),
        Delta("text", "Four."),
    ]


@pytest.mark.parametrize("finish_reason", ["tool_calls", "stop", "function_call"])
async def test_parallel_calls_whose_arguments_come_in_turns_are_put_together(
    finish_reason: str,
) -> None:
    answer = Answer(
        "Looking.",
        calls=[("read", {"path": "a.txt"}), ("grep", {"pattern": "\u00fc"})],
        split_arguments=3,
        interleave_calls=True,
        finish_reason=finish_reason,
    )
    async with model_peer(answer) as peer:
        message = await peer.ask()

    assert message == Message(
        "assistant",
        "Looking.",
        model="m",
        tool_calls=[
            ToolCall("call_0", "read", {"path": "a.txt"}),
            ToolCall("call_1", "grep", {"pattern": "\u00fc"}),
        ],
    )


async def test_calls_without_an_index_find_their_pieces_by_id() -> None:
    pieces = [
        {"id": "a", "function": {"name": "read", "arguments": '{"pa'}},
        {"id": "b", "function": {"name": "grep", "arguments": "{}"}},
        {"id": "a", "function": {"arguments": 'th":"x"}'}},
    ]
    assert await _calls_from(pieces) == [
        ToolCall("a", "read", {"path": "x"}),
        ToolCall("b", "grep"),
    ]


async def test_calls_that_are_all_numbered_zero_are_told_apart_by_id() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}},
        {"index": 0, "id": "b", "function": {"name": "grep", "arguments": '{"n":'}},
        {"index": 0, "function": {"arguments": "1}"}},
    ]
    assert await _calls_from(pieces) == [ToolCall("a", "read"), ToolCall("b", "grep", {"n": 1})]


async def test_arguments_that_come_as_an_object_are_taken() -> None:
    pieces = [{"index": 0, "id": "a", "function": {"name": "read", "arguments": {"path": "x"}}}]
    assert await _calls_from(pieces) == [ToolCall("a", "read", {"path": "x"})]


async def test_two_calls_with_one_id_get_different_ones() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}},
        {"index": 1, "id": "a", "function": {"name": "grep", "arguments": "{}"}},
    ]
    first, second = await _calls_from(pieces)
    assert (first, second.name) == (ToolCall("a", "read"), "grep")
    assert second.id != "a"


@pytest.mark.parametrize("has_index", [True, False])
async def test_calls_without_an_id_get_one_each(has_index: bool) -> None:
    answer = Answer(
        calls=[("read", {"path": "a"}), ("read", {"path": "b"})],
        call_id=False,
        call_index=has_index,
        split_arguments=2,
    )
    async with model_peer(answer) as peer:
        calls = (await peer.ask()).tool_calls

    assert [(call.name, call.arguments) for call in calls] == [
        ("read", {"path": "a"}),
        ("read", {"path": "b"}),
    ]
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", call.id) for call in calls)
    assert calls[0].id != calls[1].id


@pytest.mark.parametrize("text", ["", "  "])
async def test_empty_arguments_mean_none(text: str) -> None:
    async with model_peer(Answer(calls=[("now", text)])) as peer:
        assert (await peer.ask()).tool_calls == [ToolCall("call_0", "now")]


@pytest.mark.parametrize("text", ['{"path":', "[1]", "null", '"{}"', "[" * 100_000])
async def test_arguments_that_are_no_object_are_kept_as_they_came(text: str) -> None:
    async with model_peer(Answer(calls=[("read", text)])) as peer:
        assert (await peer.ask()).tool_calls == [ToolCall("call_0", "read", raw_arguments=text)]


async def test_half_a_surrogate_in_text_or_arguments_becomes_a_replacement_character() -> None:
    lone = r'{"choices":[{"delta":{"content":"a\ud83d!"}}]}'
    answer = Answer(raw_events=[lone], calls=[("say", r'{"text":"\udc00"}')])
    async with model_peer(answer) as peer:
        message = await peer.ask()

    assert message.text == "a\ufffd!"
    assert message.tool_calls == [ToolCall("call_0", "say", {"text": "\ufffd"})]


async def test_an_answer_cut_by_the_token_limit_ends_the_turn_without_its_calls() -> None:
    answer = Answer("Half a", calls=[("write", '{"path"')], finish_reason="length")
    async with model_peer(answer) as peer:
        assert await peer.ask() == Message("assistant", "Half a", model="m")
    assert (peer.done[0].stop_reason, peer.envs[0].should_exit) == ("max_tokens", True)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer("Some", finish_reason="content_filter"), "Some"),
        (Answer(refusal="I will not."), "I will not."),
    ],
)
async def test_a_refusal_ends_the_turn_and_its_words_are_kept(answer: Answer, text: str) -> None:
    async with model_peer(answer) as peer:
        assert await peer.ask() == Message("assistant", text, model="m")
    assert (peer.done[0].stop_reason, peer.envs[0].should_exit) == ("refusal", True)


async def test_an_answer_that_says_nothing_ends_the_turn_with_no_text() -> None:
    async with model_peer(Answer(usage={"prompt_tokens": 3, "completion_tokens": 0})) as peer:
        assert await peer.ask() == Message("assistant", model="m", usage=Usage(3))
    done = peer.done[0]
    assert (done.stop_reason, done.text, done.error) == ("end_turn", "", None)


@pytest.mark.parametrize(
    "oddity",
    [
        {"empty_choices": True},
        {"keep_alive": True},
        {"line_end": "\r\n"},
        {"line_end": "\r"},
        {"done": False},
        {"byte_by_byte": True},
        {"byte_by_byte": True, "line_end": "\r\n", "keep_alive": True, "empty_choices": True},
        {"raw_events": ['{\ndata: "choices": [],\ndata:"usage":null}']},
        {"raw_events": ['{"usage":{"prompt_tokens":null}}', "{}"]},
    ],
    ids=str,
)
async def test_an_oddly_phrased_stream_is_read_all_the_same(oddity: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    answer = Answer("Gr\u00fc\u00dfe, \U0001f44b Mac", calls=[("now", {})], usage=usage)
    async with model_peer(dataclasses.replace(answer, **oddity)) as peer:
        message = await peer.ask()

    assert message == Message(
        "assistant",
        "Gr\u00fc\u00dfe, \U0001f44b Mac",
        tool_calls=[ToolCall("call_0", "now")],
        model="m",
        usage=Usage(1, 2),
    )


async def test_a_line_of_five_megabytes_is_read_at_once() -> None:
    word = "x" * 5_000_000
    async with asyncio.timeout(PATIENCE_SECONDS), model_peer(Answer([word])) as peer:
        assert (await peer.ask()).text == word


async def test_five_thousand_deltas_arrive_in_order() -> None:
    words = [f"{number} " for number in range(5000)]
    async with model_peer(Answer(words)) as peer:
        assert (await peer.ask()).text == "".join(words)
    assert [delta.text for delta in peer.deltas] == words


async def test_a_server_that_never_says_goodbye_has_still_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "TAIL_SECONDS", 0.05)
    async with model_peer(Answer("Done.", hold_done=True)) as peer:
        assert await peer.ask() == Message("assistant", "Done.", model="m")
        await peer.server.until(lambda: peer.server.open_requests == 0)


async def test_turns_share_one_connection_and_send_the_key() -> None:
    async with model_peer(Answer("One."), Answer("Two."), Answer("Three.")) as peer:
        assert [(await peer.ask()).text for _ in range(3)] == ["One.", "Two.", "Three."]
        assert peer.server.connections == 1
    assert {headers["authorization"] for headers in peer.server.headers} == {f"Bearer {KEY}"}


async def test_closing_the_completion_closes_its_connection() -> None:
    async with ModelServer(memory) as server:
        async with OpenAICompletion("m", server.base_url) as completion:
            await Agent().run(completion).start("Hi")
        await server.until(lambda: server.open_connections == 0)


async def test_the_whole_conversation_is_sent_and_answered() -> None:
    async with ModelServer(memory) as server, OpenAICompletion("m", server.base_url) as completion:
        history = [
            Message("user", "My name is Mac."),
            Message("assistant", "Hello."),
            Message("user", "What is my name?"),
        ]
        env = await Agent().run(completion).start(history)

    assert env.messages[-1].text == "Your name is Mac."
    assert last_user_text(server.requests[0]) == "What is my name?"
    assert server.requests == [
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "My name is Mac."},
                {"role": "assistant", "content": "Hello."},
                {"role": "user", "content": "What is my name?"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


async def test_tools_are_offered_to_the_endpoint() -> None:
    spec = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {}})
    async with (
        ModelServer(in_order(Answer("Yes."))) as server,
        OpenAICompletion("m", server.base_url) as completion,
    ):
        agent = Agent().run(completion)
        agent.on("turn", lambda env, _: env.tools.append(spec))
        await agent.start("Hi")

    assert server.requests[0]["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "read",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


async def test_cancelling_closes_the_socket_and_keeps_what_had_come() -> None:
    answer = Answer(["Once ", "upon ", "a time"], reasoning=["Hm."], pause_after=3)
    async with model_peer(answer) as peer:
        upon = asyncio.Event()
        peer.agent.on("delta", lambda _, delta: upon.set() if delta.text == "upon " else None)
        turn = asyncio.create_task(peer.ask())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await upon.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await peer.server.until(lambda: peer.server.open_connections == 0)

    assert peer.said == [
        Message("assistant", "Once upon ", reasoning="Hm.", model="m", partial=True)
    ]
    assert peer.done[0].stop_reason == "cancelled"


async def test_cancelling_before_the_first_byte_keeps_nothing_and_closes_the_socket() -> None:
    async with model_peer(Answer("Late", delay_seconds=60)) as peer:
        turn = asyncio.create_task(peer.ask())
        await peer.server.until(lambda: peer.server.open_requests == 1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await peer.server.until(lambda: peer.server.open_connections == 0)
    assert peer.said == []


async def test_the_environment_says_where_a_library_user_s_model_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ModelServer(memory) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        async with OpenAICompletion("m") as completion:
            await Agent().run(completion).start("Hi")
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_nothing_else_of_the_environment_reaches_an_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaks = {
        "OPENAI_API_KEY": "leak-key",
        "OPENAI_ADMIN_KEY": "leak-admin",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/leak",
        "OPENAI_ORG_ID": "leak-org",
        "OPENAI_PROJECT_ID": "leak-project",
        "OPENAI_CUSTOM_HEADERS": "X-Mine: leak\nAuthorization: leak",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }
    for name, value in leaks.items():
        monkeypatch.setenv(name, value)
    async with ModelServer(memory) as server:
        endpoint = Endpoint(server.base_url, "", 10)
        await Agent().run(OpenAICompletion("m", endpoint=endpoint)).start("Hi")
        await endpoint.close()

    assert "leak" not in json.dumps(server.headers)
    assert not any(name.startswith("openai-") for name in server.headers[0])


def test_a_script_may_run_one_event_loop_after_another() -> None:
    endpoint = Endpoint("http://127.0.0.1:9/v1", "", 10)
    first, second = asyncio.run(endpoint.client()), asyncio.run(endpoint.client())
    assert first is not second


def test_importing_the_models_imports_no_model_library() -> None:
    script = (
        "import sys, treadle.models.provider, treadle.models.openai.stream\n"
        "heavy = {'openai', 'httpx2', 'pydantic', 'anyio'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


async def _calls_from(pieces: list[dict[str, Any]]) -> list[ToolCall]:
    events = [
        json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
        for piece in pieces
    ]
    async with model_peer(Answer(raw_events=events, finish_reason="tool_calls")) as peer:
        return (await peer.ask()).tool_calls
