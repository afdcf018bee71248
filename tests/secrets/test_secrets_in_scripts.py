"""Secrets in a script of one's own, without a daemon: its threads and its events hold none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.model_peer import KEY, model_peer
from support.model_server import Answer
from treadle import secrets
from treadle.errors import ModelAuth
from treadle.models.completion import Delta
from treadle.models.scripted import Reply, Scripted
from treadle.thread.message import Message
from treadle.thread.replay import load
from treadle.turn.agent import Agent
from treadle.turn.session_log import SessionLog

# A model that is a script speaks word by word, so it says this in three deltas.
VALUE = "alpha bravo charlie"


@pytest.fixture(autouse=True)
def _held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_names", ("OPENAI_API_KEY", "PHRASE"))
    monkeypatch.setattr(secrets, "_values", ())
    monkeypatch.setenv("PHRASE", VALUE)
    yield
    secrets._compiled.cache_clear()


def follow(agent: Agent) -> list[tuple[str, Any]]:
    """Note what an agent tells, in order."""
    told: list[tuple[str, Any]] = []
    agent.on("model_call", lambda _env, _call: told.append(("model_call", "")))
    agent.on("delta", lambda _env, delta: told.append((delta.kind, delta.text)))
    agent.on("done", lambda _env, done: told.append(("done", done.text)))
    return told


async def test_thread_and_deltas_hold_the_name_in_the_secrets_place(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    scripted = Scripted([Reply(f"It is {VALUE}, yes.", reasoning=f"Hm, {VALUE}.")])
    agent = Agent().use(SessionLog, path=path).run(scripted)
    told = follow(agent)
    env = await agent.start(f"Is it {VALUE}?")
    said = [
        Message("user", "Is it [secret PHRASE]?"),
        Message(
            "assistant",
            "It is [secret PHRASE], yes.",
            reasoning="Hm, [secret PHRASE].",
            model="scripted",
        ),
    ]
    assert [(each.role, each.content, each.reasoning) for each in env.messages] == [
        (each.role, each.content, each.reasoning) for each in said
    ]
    assert load(path).messages == env.messages
    assert b"bravo" not in path.read_bytes()
    assert [message.text for message in scripted.requests[0].messages] == [said[0].text]
    assert told == [
        ("model_call", ""),
        ("reasoning", "Hm,"),
        ("reasoning", " "),
        ("reasoning", "[secret PHRASE]."),
        ("text", "It"),
        ("text", " is"),
        ("text", " "),
        ("text", "[secret PHRASE],"),
        ("text", " yes."),
        ("done", "It is [secret PHRASE], yes."),
    ]


async def test_what_was_held_back_is_told_before_whatever_comes_next() -> None:
    agent = Agent().run(Scripted([Reply("It is alpha bravo", reasoning="Hm, alpha")]))
    told = follow(agent)
    await agent.start("Go.")
    assert told == [
        ("model_call", ""),
        ("reasoning", "Hm,"),
        ("reasoning", " "),
        ("text", "It"),
        ("text", " is"),
        ("text", " "),
        ("reasoning", "alpha"),
        ("text", "alpha bravo"),
        ("done", "It is alpha bravo"),
    ]


async def test_a_message_that_holds_no_secret_is_kept_as_it_is(tmp_path: Path) -> None:
    message = Message("user", "alpha", extra={"mine": [1, {"a": None}]}, at="now", turn=3)
    agent = Agent().use(SessionLog, path=tmp_path / "chat.jsonl").run(Scripted(["Fine."]))
    env = await agent.start(message)
    assert env.messages[0] == message


async def test_every_text_of_a_message_is_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    content = [{"type": "text", "text": VALUE, "more": {VALUE: [VALUE]}}]
    agent = Agent().use(SessionLog, path=path).run(Scripted(["Fine."]))
    env = await agent.start(Message("user", content, model=VALUE, extra={"mine": VALUE, VALUE: 1}))
    shown = "[secret PHRASE]"
    assert env.messages[0].content == [
        {"type": "text", "text": shown, "more": {shown: [shown]}},
    ]
    assert env.messages[0].model == shown
    assert env.messages[0].extra == {"mine": shown, shown: 1}
    assert b"bravo" not in path.read_bytes()


async def test_a_key_that_a_script_brings_along_is_in_no_error_thread_or_delta() -> None:
    refused = Answer(status=401, error={"message": f"Incorrect API key provided: {KEY}."})
    async with model_peer(Answer([*f"The key is {KEY}."]), refused) as peer:
        await peer.ask()
        assert "".join(delta.text for delta in peer.deltas) == "The key is [secret api_key]."
        with pytest.raises(ModelAuth) as told:
            await peer.ask(f"Is it {KEY}?")
        assert KEY not in str(told.value)
        assert "[secret api_key]" in str(told.value)
        assert {headers["authorization"] for headers in peer.server.headers} == {f"Bearer {KEY}"}


def test_a_delta_without_secrets_is_the_very_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.turn.env import Env
    from treadle.turn.events import turn_events

    monkeypatch.delenv("PHRASE")
    told: list[object] = []
    events = turn_events()
    events.on("delta", lambda _env, delta: told.append(delta))
    env = Env(events, [Message("user", "Hi")])
    deltas = [Delta("text", "one"), Delta("text", ""), Delta("reasoning", "two")]
    for delta in deltas:
        env.emit("delta", delta)
    assert [id(each) for each in told] == [id(each) for each in deltas]
    assert env.deltas == 3
