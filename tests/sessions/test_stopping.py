"""Cancel and close: always answered, bounded, and the session takes the next prompt."""

from __future__ import annotations

import asyncio

import pytest

from support.daemon import Daemon, RpcError
from support.model_server import Answer, memory
from support.person import by_text, conversation, pair, stored

_SLOW = "One two three four"


def _slow() -> Answer:
    return Answer(_SLOW, pause_after=2)


async def _streaming(client: Daemon, instance: str, text: str = "Slow") -> asyncio.Future[dict]:  # type: ignore[type-arg]
    """Prompt, and wait until two words of the answer have come, in one delta or two."""
    running = client.ask("session/prompt", pair(instance, prompt=text))

    def two_words() -> bool:
        deltas = client.of("session/delta", instance)
        return len("".join(delta["text"] for delta in deltas).split()) >= 2

    await client.until(two_words)
    return running


async def _works(client: Daemon, instance: str) -> None:
    answer = await client.request("session/prompt", pair(instance, prompt="Still there?"))
    assert (answer["text"], answer["stopReason"]) == ("Fine.", "end_turn")


async def test_cancelling_nothing_is_no_error() -> None:
    async with conversation(memory) as (client, _):
        assert await client.request("session/cancel", pair("never")) == {"cancelled": False}
        await client.request("session/resume", pair("idle"))
        assert await client.request("session/cancel", pair("idle")) == {"cancelled": False}
        assert await client.request("session/cancel", pair("idle", turn=1)) == {"cancelled": False}
        await client.request("session/prompt", pair("idle", prompt="Hello"))
        assert await client.request("session/cancel", pair("idle")) == {"cancelled": False}
        assert await client.request("session/cancel", pair("idle", turn=1)) == {"cancelled": False}


async def test_a_cancel_in_the_stream_keeps_what_had_come_marked() -> None:
    async with conversation(by_text({"Slow": _slow()})) as (client, server):
        running = await _streaming(client, "c")
        assert await client.request("session/cancel", pair("c", turn=2)) == {"cancelled": False}
        assert await client.request("session/cancel", pair("c", turn=1)) == {
            "cancelled": True,
            "turn": 1,
        }
        result = await running
        await server.until(lambda: server.open_requests == 0)
        await _works(client, "c")
        messages = (await client.request("session/read", pair("c")))["messages"]

    usage = {"inputTokens": 0, "outputTokens": 0}
    assert result == {
        "turn": 1,
        "text": "One two",
        "stopReason": "cancelled",
        "usage": usage,
        "steps": 1,
        "messages": [0, 1],
    }
    assert client.of("session/done")[0]["stopReason"] == "cancelled"
    told = [(one["role"], one["content"], one.get("partial", False)) for one in messages]
    assert told[:2] == [("user", "Slow", False), ("assistant", "One two", True)]
    assert [one["content"] for one in server.requests[1]["messages"][1:]] == [
        "Slow",
        "One two",
        "Still there?",
    ]


async def test_two_cancels_are_both_answered_and_queued_prompts_stay() -> None:
    async with conversation(by_text({"Slow": _slow()})) as (client, _):
        running = await _streaming(client, "q")
        waiting = [client.ask("session/prompt", pair("q", prompt=f"p{n}")) for n in range(3)]
        cancels = [client.ask("session/cancel", pair("q")) for _ in range(2)]

        assert [await one for one in cancels] == [{"cancelled": True, "turn": 1}] * 2
        assert (await running)["stopReason"] == "cancelled"
        assert [(await one)["stopReason"] for one in waiting] == ["end_turn"] * 3


async def test_a_cancel_before_the_turn_began_stops_it_before_its_model_is_asked() -> None:
    async with conversation(by_text({})) as (client, server):
        for number in range(20):
            prompt = client.ask("session/prompt", pair(f"b{number}", prompt="Hello"))
            cancel = client.ask("session/cancel", pair(f"b{number}"))
            assert (await prompt)["stopReason"] == "cancelled"
            assert (await cancel)["cancelled"]
            assert len(client.of("session/done", f"b{number}")) == 1
        assert server.requests == []
        await _works(client, "b0")


async def test_a_cancel_is_answered_while_other_sessions_stream() -> None:
    pieces = [f"{number} " for number in range(3_000)]
    # The last piece is held back, so that none of them can end before the cancel is answered.
    long = Answer(pieces, pause_after=len(pieces) - 1)
    answers = {"Slow": _slow(), "Long": long}
    async with conversation(by_text(answers)) as (client, _):
        others = [client.ask("session/prompt", pair(f"o{n}", prompt="Long")) for n in range(7)]
        running = await _streaming(client, "mine")
        await client.until(lambda: bool(client.of("session/delta", "o0")))
        cancelled = await client.request("session/cancel", pair("mine"))
        assert not any(other.done() for other in others)
        long.go_on.set()
        ended = [(await other)["text"] for other in others]

    assert cancelled == {"cancelled": True, "turn": 1}
    assert (await running)["stopReason"] == "cancelled"
    assert ended == ["".join(pieces)] * 7


async def test_cancelling_the_request_stops_its_turn_and_answers_that_it_was_cancelled() -> None:
    async with conversation(by_text({"Slow": _slow()})) as (client, server):
        running = await _streaming(client, "x")
        queued = client.ask("session/prompt", pair("x", prompt="Never"))
        for request in (queued, running):
            client.notify("$/cancelRequest", {"id": request.request_id})  # type: ignore[attr-defined]
            with pytest.raises(RpcError) as cancelled:
                await request
            assert cancelled.value.code == -32800
        await server.until(lambda: server.open_requests == 0)
        await _works(client, "x")
        messages = (await client.request("session/read", pair("x")))["messages"]

    assert [one["content"] for one in messages] == ["Slow", "One two", "Still there?", "Fine."]
    assert [one["stopReason"] for one in client.of("session/done")] == ["cancelled", "end_turn"]


async def test_close_is_idempotent_and_safe_with_nothing_held() -> None:
    released = {"servers": [], "processes": []}
    async with conversation(by_text({})) as (client, _):
        assert await client.request("session/close", pair("n")) == {
            "closed": False,
            "released": released,
        }
        await client.request("session/resume", pair("n"))
        closes = [client.ask("session/close", pair("n")) for _ in range(3)]
        assert [(await one)["closed"] for one in closes] == [True, False, False]
        assert client.of("session/state")[-1]["state"] == "closed"
        await _works(client, "n")


async def test_close_ends_the_running_prompt_and_those_that_wait() -> None:
    async with conversation(by_text({"Slow": _slow()})) as (client, server):
        running = await _streaming(client, "c")
        waiting = [client.ask("session/prompt", pair("c", prompt=f"p{n}")) for n in range(3)]
        closed = client.ask("session/close", pair("c"))
        behind = client.ask("session/prompt", pair("c", prompt="Behind"))

        assert (await closed)["closed"]
        assert [(await one)["stopReason"] for one in (running, *waiting)] == ["closed"] * 4
        assert (await behind)["text"] == "Fine."
        assert len(server.requests) == 2
        seqs = [event["params"]["seq"] for event in client.events]
        assert seqs == list(range(1, len(seqs) + 1))
        states = [one["state"] for one in client.of("session/state")]
        assert states[states.index("closed") :] == ["closed", "running", "idle"]


async def test_a_closed_session_lets_its_thread_go_and_numbers_its_events_on() -> None:
    async with conversation(by_text({})) as (client, _):
        await _works(client, "s")
        last = client.events[-1]["params"]["seq"]
        await client.request("session/close", pair("s"))
        path = stored("assistant", "s")
        assert [one.name for one in path.parent.iterdir()] == [path.name]
        await client.request("session/resume", pair("s"))
        await _works(client, "s")

    seqs = [event["params"]["seq"] for event in client.events]
    assert seqs == list(range(1, len(seqs) + 1))
    assert seqs[-1] > last


async def test_a_cancel_or_close_without_an_id_is_done_and_not_answered() -> None:
    async with conversation(by_text({"Slow": _slow(), "Again": _slow()})) as (client, _):
        running = await _streaming(client, "a")
        client.notify("session/cancel", pair("a"))
        assert (await running)["stopReason"] == "cancelled"
        again = client.ask("session/prompt", pair("a", prompt="Again"))
        await client.until(lambda: len(client.of("session/delta", "a")) == 4)
        client.notify("session/close", pair("a"))
        assert (await again)["stopReason"] == "closed"
        await _works(client, "a")
        assert client.strays == []


async def test_a_daemon_killed_in_mid_stream_leaves_a_thread_that_goes_on() -> None:
    async with conversation(by_text({"Slow": _slow()})) as (client, _):
        running = await _streaming(client, "k")
        await client.kill()
        with pytest.raises(EOFError):
            await running
    async with conversation(by_text({})) as (client, server):
        resumed = await client.request("session/resume", pair("k"))
        await _works(client, "k")
        messages = (await client.request("session/read", pair("k")))["messages"]

    assert resumed["report"] == {
        "quarantinedLines": 0,
        "tornBytes": 0,
        "repairedCalls": 0,
        "interruptedTurn": 1,
    }
    assert [(one["role"], one["content"], one["turn"]) for one in messages] == [
        ("user", "Slow", 1),
        ("user", "Still there?", 2),
        ("assistant", "Fine.", 2),
    ]
    assert [one["role"] for one in server.requests[0]["messages"]] == ["system", "user", "user"]
