"""What a daemon has acknowledged outlives it: steered text, and prompts under a key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, pair, stored, write_config
from support.waiting import until_seen


async def texts(client: Daemon, instance: str) -> list[str]:
    page = await client.request("session/read", pair(instance))
    return [one["content"] for one in page["messages"]]


class Held:
    """A model that answers nothing until it is let, and counts who asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = asyncio.Event()

    def __call__(self, request: Request) -> Answer:
        self.asked.append(last_user_text(request))
        return Answer(f"Re {self.asked[-1]}", pause_after=0, go_on=self.go_on)


async def test_text_that_was_said_to_have_entered_a_turn_survives_a_kill() -> None:
    model = Held()
    async with ModelServer(model) as server:
        async with daemon(env=on(server)) as client:
            _ = client.ask("session/prompt", pair("a", prompt="one"))
            await until_seen(lambda: model.asked == ["one"])
            for text in ("two", "three"):
                steered = await client.request("session/steer", pair("a", text=text))
                assert steered == {"injected": True, "turn": 1}
            await client.kill()
        model.go_on.set()
        async with daemon(env=on(server)) as client:
            resumed = await client.request("session/resume", pair("a"))
            assert resumed["report"]["interruptedTurn"] == 1
            assert await texts(client, "a") == ["one", "two", "three"]
            await client.request("session/prompt", pair("a", prompt="four"))
            assert await texts(client, "a") == ["one", "two", "three", "four", "Re four"]


async def test_text_that_entered_a_turn_which_never_began_is_kept_unanswered() -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    model = Held()
    async with ModelServer(model) as server, daemon(env=on(server)) as client:
        blocking = client.ask("session/prompt", pair("x", prompt="first"))
        await until_seen(lambda: model.asked == ["first"])
        waiting = client.ask("session/prompt", pair("a", prompt="one"))
        steered = await client.request("session/steer", pair("a", text="two"))
        cancelled = await client.request("session/cancel", pair("a"))
        outcome = await waiting
        model.go_on.set()
        await blocking
        await client.request("session/prompt", pair("a", prompt="three"))

        assert (steered, cancelled) == ({"injected": True}, {"cancelled": True})
        assert (outcome["stopReason"], "turn" in outcome) == ("cancelled", False)
        assert await texts(client, "a") == ["two", "three", "Re three"]


async def test_text_for_a_session_that_cannot_be_opened_is_not_said_to_have_entered() -> None:
    async with daemon() as client:
        prompting = client.ask("session/prompt", pair("a", "nobody", prompt="one"))
        steering = client.ask("session/steer", pair("a", "nobody", text="two"))
        for answer in (prompting, steering):
            with pytest.raises(RpcError) as unknown:
                await answer
            assert unknown.value.reason == "unknown_agent"


async def test_a_prompt_under_a_key_runs_once_whatever_is_killed() -> None:
    model = Held()
    keyed: dict[str, Any] = pair("a", prompt="one", key="k")
    async with ModelServer(model) as server:
        async with daemon(env=on(server)) as client:
            model.go_on.set()
            outcome = await client.request("session/prompt", keyed)
            model.go_on.clear()
            _ = client.ask("session/prompt", pair("a", prompt="two", key="k2"))
            await until_seen(lambda: model.asked == ["one", "two"])
            await client.kill()
        model.go_on.set()
        async with daemon(env=on(server)) as client:
            repeated = await client.request("session/prompt", keyed)
            ended = await client.request("session/prompt", pair("a", prompt="two", key="k2"))
            with pytest.raises(RpcError) as other:
                await client.request("session/prompt", pair("a", prompt="else", key="k"))
            after = await client.request("session/prompt", pair("a", prompt="three", key="k3"))
            told = [one["turn"] for one in client.of("session/done")]
            said = await texts(client, "a")

    assert repeated == outcome
    assert ended == {
        "turn": 2,
        "text": "",
        "stopReason": "interrupted",
        "usage": {"inputTokens": 0, "outputTokens": 0},
        "steps": 0,
        "messages": [2, 2],
    }
    assert (other.value.code, other.value.data) == (-32602, {"path": "key"})
    assert (after["turn"], told) == (3, [3])
    assert model.asked == ["one", "two", "three"]
    assert said == ["one", "Re one", "two", "three", "Re three"]


async def test_deleting_a_session_forgets_its_keys_and_a_fork_has_none() -> None:
    model = Held()
    model.go_on.set()
    keyed: dict[str, Any] = {"prompt": "one", "key": "k"}
    async with ModelServer(model) as server, daemon(env=on(server)) as client:
        await client.request("session/prompt", pair("a", **keyed))
        await client.request("session/fork", pair("a", into="b"))
        await client.request("session/prompt", pair("b", **keyed))
        await client.request("session/delete", pair("a"))
        await client.request("session/prompt", pair("a", **keyed))
        stored("assistant", "a").unlink()
        # A prompt without a key notices that the file is gone.
        await client.request("session/prompt", pair("a", prompt="two"))
        await client.request("session/prompt", pair("a", **keyed))
        assert await texts(client, "a") == ["two", "Re two", "one", "Re one"]
    assert model.asked == ["one", "one", "one", "two", "one"]
