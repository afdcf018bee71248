"""Every failure has its reason on the wire, ends its turn once, and leaves the session usable."""

from __future__ import annotations

from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, last_user_text
from support.person import (
    by_text,
    conversation,
    pair,
    stored,
    without_overhead,
    write_agent,
    write_config,
)


@pytest.fixture(autouse=True)
def _no_retries() -> None:
    """See each failure at once: what is tried again has tests of its own."""
    write_config("[models]\nmax_retries = 0\n")


async def _refusal(client: Daemon, params: dict[str, Any]) -> RpcError:
    """Prompt in vain; the prompt's one `session/done` has to carry the same error."""
    before = len(client.of("session/done"))
    with pytest.raises(RpcError) as refused:
        await client.request("session/prompt", params)
    error = refused.value
    done = client.of("session/done")[before:]
    assert [(event["stopReason"], event["error"]["code"]) for event in done] == [
        ("error", error.code)
    ]
    assert done[0]["error"]["data"] == error.data
    return error


async def _works(client: Daemon, instance: str, agent: str = "assistant") -> None:
    answer = await client.request("session/prompt", pair(instance, agent, prompt="Still there?"))
    assert (answer["text"], answer["stopReason"]) == ("Fine.", "end_turn")


_FAILURES: dict[str, tuple[Answer, dict[str, Any]]] = {
    "401": (Answer(status=401), {"reason": "model_auth", "status": 401}),
    "403": (Answer(status=403), {"reason": "model_auth", "status": 403}),
    "429": (
        Answer(status=429, headers={"Retry-After": "7"}),
        {"reason": "model_rate_limited", "retryAfterSeconds": 7.0},
    ),
    "500": (Answer(status=500), {"reason": "model_unreachable", "status": 500}),
    "503": (Answer(status=503), {"reason": "model_unreachable", "status": 503}),
    "400": (Answer(status=400), {"reason": "model_refused_request", "status": 400}),
    "404": (Answer(status=404), {"reason": "model_refused_request", "status": 404}),
    "422": (Answer(status=422), {"reason": "model_refused_request", "status": 422}),
    "overflow": (
        Answer(
            status=400,
            error={
                "code": "context_length_exceeded",
                "message": "This model's maximum context length is 8192 tokens.",
            },
        ),
        {"reason": "context_overflow", "window": 8192},
    ),
    "dropped": (
        Answer("One two three", drop_after=2),
        {"reason": "model_stream_broken", "partial": "One two"},
    ),
    "dropped at once": (
        Answer("One", drop_after=0),
        {"reason": "model_stream_broken", "partial": ""},
    ),
    "truncated": (
        Answer("One two", finish_reason=None),
        {"reason": "model_stream_broken", "partial": "One two"},
    ),
    "truncated without an end mark": (
        Answer("One two", finish_reason=None, done=False),
        {"reason": "model_stream_broken", "partial": "One two"},
    ),
    "broken chunk": (
        Answer("One two", broken_chunk=True),
        {"reason": "model_stream_broken", "partial": "One two"},
    ),
    "error in the stream": (
        Answer("One two", stream_error={"message": "out of memory"}),
        {"reason": "model_stream_broken", "partial": "One two"},
    ),
    "rate limit in the stream": (
        Answer("One", stream_error={"message": "slow down", "code": 429}),
        {"reason": "model_rate_limited"},
    ),
}


async def test_every_failure_of_a_model_has_its_reason_and_the_next_prompt_works() -> None:
    answers = {name: answer for name, (answer, _) in _FAILURES.items()}
    async with conversation(by_text(answers)) as (client, _):
        for name, (_, data) in _FAILURES.items():
            error = await _refusal(client, pair(name, prompt=name))
            assert (name, error.code, without_overhead(error.data)) == (name, -32803, data)
            assert client.of("session/done", name)[0]["turn"] == 1
            await _works(client, name)


async def test_what_had_come_of_a_broken_answer_is_kept_and_marked() -> None:
    answers = {"Count": Answer("One two three", drop_after=2)}
    async with conversation(by_text(answers)) as (client, server):
        await _refusal(client, pair("p", prompt="Count"))
        await _works(client, "p")
        messages = (await client.request("session/read", pair("p")))["messages"]

    told = [(one["role"], one["content"], one.get("partial", False)) for one in messages]
    assert told == [
        ("user", "Count", False),
        ("assistant", "One two", True),
        ("user", "Still there?", False),
        ("assistant", "Fine.", False),
    ]
    assert [one["content"] for one in server.requests[1]["messages"][1:]] == [
        "Count",
        "One two",
        "Still there?",
    ]


async def test_a_model_that_is_silent_or_not_there_is_unreachable() -> None:
    write_config("[models]\ntimeout_seconds = 0.3\nmax_retries = 0\n")
    answers = {
        "Before": Answer("Late", delay_seconds=5),
        "Within": Answer("One two", pause_after=1),
    }
    write_agent("nowhere", base_url="http://127.0.0.1:1/v1")
    async with conversation(by_text(answers)) as (client, _):
        before = await _refusal(client, pair("t", prompt="Before"))
        within = await _refusal(client, pair("t", prompt="Within"))
        nowhere = await _refusal(client, pair("t", "nowhere", prompt="Hello"))
        await _works(client, "t")

    assert before.data == {"reason": "model_unreachable"}
    assert within.data == {"reason": "model_stream_broken", "partial": "One"}
    assert nowhere.data == {"reason": "model_unreachable"}


async def test_agents_that_are_missing_or_broken_say_so() -> None:
    broken = write_agent("broken", permissions="everything")
    async with conversation(by_text({})) as (client, _):
        unknown = await _refusal(client, pair("x", "asistant", prompt="Hello"))
        invalid = await _refusal(client, pair("x", "broken", prompt="Hello"))
        with pytest.raises(RpcError) as resumed:
            await client.request("session/resume", pair("x", "asistant"))
        write_agent("broken")
        await _works(client, "x", "broken")

    assert unknown.data == {"reason": "unknown_agent"}
    assert "assistant" in str(unknown)
    assert invalid.data == {"reason": "invalid_agent", "path": str(broken)}
    assert resumed.value.data == {"reason": "unknown_agent"}


async def test_a_key_that_is_not_set_is_no_model() -> None:
    write_agent("keyless", api_key_env="MY_KEY")
    async with conversation(by_text({})) as (client, _):
        error = await _refusal(client, pair("k", "keyless", prompt="Hello"))
        write_agent("keyless")
        await _works(client, "k", "keyless")

    assert error.data["reason"] == "no_model"
    assert "MY_KEY" in error.data["how"]


async def test_a_thread_that_is_no_file_is_unreadable_and_left_alone() -> None:
    folder = stored("assistant", "u")
    folder.mkdir(parents=True)
    async with conversation(by_text({})) as (client, _):
        error = await _refusal(client, pair("u", prompt="Hello"))
        with pytest.raises(RpcError) as read:
            await client.request("session/read", pair("u"))
        assert folder.is_dir()
        folder.rmdir()
        await _works(client, "u")

    assert error.data == {"reason": "thread_unreadable", "path": str(folder)}
    assert read.value.data == error.data


async def test_a_thread_of_a_newer_version_is_read_and_not_written() -> None:
    path = stored("assistant", "newer")
    path.parent.mkdir(parents=True)
    written = b'{"thread":{"version":99}}\n{"role":"user","content":"From the future"}\n'
    path.write_bytes(written)
    async with conversation(by_text({})) as (client, _):
        error = await _refusal(client, pair("newer", prompt="Hello"))
        read = await client.request("session/read", pair("newer"))

    assert error.data == {"reason": "thread_unreadable", "path": str(path)}
    assert [one["content"] for one in read["messages"]] == ["From the future"]
    assert path.read_bytes() == written


async def test_a_prompt_that_does_not_want_to_wait_is_told_that_the_session_is_busy() -> None:
    slow = Answer("One two", pause_after=1)
    async with conversation(by_text({"Slow": slow})) as (client, server):
        running = client.ask("session/prompt", pair("b", prompt="Slow"))
        await client.until(lambda: bool(client.of("session/delta")))
        with pytest.raises(RpcError) as busy:
            await client.request("session/prompt", pair("b", prompt="Now", whenBusy="reject"))
        slow.go_on.set()
        await running
        free = await client.request("session/prompt", pair("b", prompt="Now", whenBusy="reject"))

    assert busy.value.data == {"reason": "busy"}
    assert free["text"] == "Fine."
    assert len(client.of("session/done")) == 2
    assert [last_user_text(request) for request in server.requests] == ["Slow", "Now"]


async def test_a_broken_config_is_an_error_of_the_prompt_and_not_of_the_daemon() -> None:
    path = write_config("[sessions]\nturns_in_flight = 'many'\n")
    async with conversation(by_text({})) as (client, _):
        error = await _refusal(client, pair("c", prompt="Hello"))
        write_config("[sessions]\nturns_in_flight = 2\n")
        await _works(client, "c")

    assert error.data == {"reason": "invalid_agent", "path": str(path)}


async def test_after_shutdown_nothing_is_begun() -> None:
    slow = Answer("One two", pause_after=1)
    async with conversation(by_text({"Slow": slow})) as (client, server):
        running = client.ask("session/prompt", pair("s", prompt="Slow"))
        waiting = client.ask("session/prompt", pair("s", prompt="Never"))
        await client.until(lambda: bool(client.of("session/delta")))
        assert await client.end() == 0

        ended = [(await each)["stopReason"] for each in (running, waiting)]
        assert ended == ["interrupted", "interrupted"]
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"agent": "assistant", "instance": "x"}, "prompt"),
        ({"agent": "assistant", "prompt": "Hello"}, "instance"),
        ({"agent": "", "instance": "x", "prompt": "Hello"}, "agent"),
        ({"agent": "assistant", "instance": "a\nb", "prompt": "Hello"}, "instance"),
        ({"agent": "assistant", "instance": "x" * 201, "prompt": "Hello"}, "instance"),
        ({"agent": "assistant", "instance": "x", "prompt": "  "}, "prompt"),
        ({"agent": "assistant", "instance": "x", "prompt": []}, "prompt"),
        ({"agent": "assistant", "instance": "x", "prompt": "Hello", "maxTurns": 0}, "maxTurns"),
        ({"agent": "assistant", "instance": "x", "prompt": "Hi", "whenBusy": "no"}, "whenBusy"),
        ({"agent": "assistant", "instance": "x", "prompt": "Hi", "key": ""}, "key"),
        ({"agent": "assistant", "instance": "x", "prompt": "Hi", "key": "k" * 201}, "key"),
    ],
)
async def test_params_that_do_not_fit_are_told_where(params: dict[str, Any], path: str) -> None:
    async with daemon() as client:
        with pytest.raises(RpcError) as refused:
            await client.request("session/prompt", params)

    assert (refused.value.code, refused.value.data) == (-32602, {"path": path})
    assert client.events == []
