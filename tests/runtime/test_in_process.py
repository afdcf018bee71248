"""`treadle.Session`: the remembering session in a script's own process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import RpcError, daemon
from support.model_server import ModelServer, memory
from support.person import on, pair, stored, write_agent
from support.sessions import Answering, Held
from support.waiting import PATIENCE_SECONDS
from treadle import Message, Outcome, Session, ToolCall
from treadle.errors import (
    ConfigurationError,
    InvalidParams,
    ModelUnreachable,
    ThreadLocked,
    UnknownAgent,
    WouldWiden,
)
from treadle.folders import CONFIG_VARIABLE
from treadle.models.completion import Delta
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.runtime.outbox import StateChanged
from treadle.runtime.prompt import Steered
from treadle.thread.replay import load
from treadle.turn.events import ToolCallStarted


@pytest.fixture(autouse=True)
async def _nothing_is_left() -> AsyncIterator[None]:
    """Find every session given back at the end: no task of it is left."""
    before = asyncio.all_tasks()
    yield
    for _ in range(5):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()


async def resumed(**arguments: Any) -> Session:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await Session.resume("assistant", "user-42", **arguments)


async def test_it_remembers_and_a_daemon_goes_on_with_the_same_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ModelServer(memory) as server:
        for name, value in on(server).items():
            monkeypatch.setenv(name, value)
        async with await resumed() as session:
            await session.prompt("My name is Mac.")
        async with await resumed() as session:
            outcome = await session.prompt("What is my name?")
        async with daemon(env=on(server)) as client:
            told = await client.request("session/prompt", pair("user-42", prompt="And now?"))

    assert (outcome.text, outcome.turn, outcome.messages) == ("Your name is Mac.", 2, (2, 3))
    assert outcome.done.stop_reason == "end_turn"
    assert (told["text"], told["turn"]) == ("Your name is Mac.", 3)
    assert session.path == stored("assistant", "user-42")
    assert (session.agent, session.instance) == ("assistant", "user-42")


async def test_events_come_to_subscribers_by_name_and_one_that_raises_changes_nothing(
    answering: Answering, tmp_path: Path
) -> None:
    (tmp_path / "note").write_text("Hello")
    call = ScriptedCall("read", {"path": "note"}, id="c")
    answering(Scripted([Reply("I look.", calls=[call]), "It says hello."]))
    heard: list[tuple[str, object]] = []

    def note(name: str) -> None:
        def take(told: Session, payload: object) -> None:
            assert told is session
            heard.append((name, payload))
            raise ValueError("a subscriber's own fault")

        session.on(name, take)

    async with await resumed(cwd=tmp_path) as session:
        for name in ("state", "delta", "tool_call", "tool_result", "retrying", "done"):
            note(name)
        with pytest.raises(ConfigurationError, match="no event 'deltas'"):
            session.on("deltas", print)
        outcome = await session.prompt("What does it say?")

    told = [(name, payload) for name, payload in heard if not isinstance(payload, Delta)]
    deltas = [payload.text for _, payload in heard if isinstance(payload, Delta)]
    assert "".join(deltas) == "I look.It says hello."
    assert [name for name, _ in told if name != "state"] == ["tool_call", "tool_result", "done"]
    calls = [payload.call for _, payload in told if isinstance(payload, ToolCallStarted)]
    assert calls == [ToolCall("c", "read", {"path": "note"})]
    assert told[-3:] == [
        ("done", outcome.done),
        ("state", StateChanged("idle", 0)),
        ("state", StateChanged("closed", 0)),
    ]


async def test_it_has_the_thread_for_itself_until_it_is_closed_also_by_an_exception() -> None:
    async with ModelServer(memory) as server, daemon(env=on(server)) as client:
        with pytest.raises(ZeroDivisionError):
            async with await resumed():
                with pytest.raises(ThreadLocked):
                    await resumed()
                with pytest.raises(RpcError) as locked:
                    await client.request("session/resume", pair("user-42"))
                raise ZeroDivisionError
        assert (locked.value.reason, locked.value.data["pid"]) == ("thread_locked", os.getpid())
        await client.request("session/resume", pair("user-42"))
        with pytest.raises(ThreadLocked) as held:
            await resumed()
        assert held.value.data["pid"] == client.process.pid


async def test_a_block_that_ends_while_a_turn_runs_stops_it(answering: Answering) -> None:
    model = Held()
    answering(model)
    async with await resumed() as session:
        running = asyncio.create_task(session.prompt("Wait"))
        await model.reached.wait()
    outcome = await running

    assert (outcome.done.stop_reason, outcome.turn) == ("closed", 1)
    await session.close()
    for call in (session.prompt("x"), session.steer("x"), session.cancel()):
        with pytest.raises(ConfigurationError, match="closed"):
            await call


async def test_what_cannot_be_resumed_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    write_agent("inbox", permissions="read_only", cwd=str(tmp_path))
    for agent, instance, options, error in [
        ("asistant", "x", {}, UnknownAgent),
        ("assistant", "", {}, InvalidParams),
        ("a\nb", "x", {}, InvalidParams),
        ("inbox", "x", {"permissions": "auto"}, WouldWiden),
        ("inbox", "x", {"cwd": "/"}, WouldWiden),
        ("assistant", "x", {"tools": ["reed"]}, InvalidParams),
        ("assistant", "x", {"cwd": "~nobody-at-all"}, ConfigurationError),
        ("assistant", "x", {"data_dir": "~nobody-at-all/data"}, ConfigurationError),
    ]:
        with pytest.raises(error):
            await Session.resume(agent, instance, **options)  # type: ignore[arg-type]  # a table


async def test_folders_given_come_before_those_of_the_environment(
    answering: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "mine"))
    write_agent("own")
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "empty"))
    answering(Scripted(["Hello."]))
    async with await Session.resume(
        "own", "x", data_dir=tmp_path / "data2", config_dir=str(tmp_path / "mine")
    ) as session:
        await session.prompt("Hi")

    assert session.path == tmp_path / "data2" / "threads" / "own" / "x.jsonl"
    assert [message.text for message in load(session.path).messages] == ["Hi", "Hello."]


async def test_a_turn_can_be_steered_cancelled_and_taken_back(answering: Answering) -> None:
    model = Held()
    answering(model)
    async with await resumed() as session:
        assert not await session.cancel()
        first = asyncio.create_task(session.prompt("one"))
        await model.reached.wait()
        assert await session.steer("more") == Steered(injected=True, turn=1)
        assert await session.cancel()
        assert (await first).done.stop_reason == "cancelled"
        model.reached.clear()
        second = asyncio.create_task(session.prompt("two"))
        await model.reached.wait()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        model.open.set()
        assert (await session.prompt([Message("user", "three")])).text == "Answer 3"

    assert session.path is not None
    texts = [message.text for message in load(session.path).messages]
    assert texts == ["one", "more", "two", "three", "Answer 3"]


async def test_the_same_prompt_under_the_same_key_runs_once(answering: Answering) -> None:
    answering(Scripted(["First.", "Second."]))
    outcomes: list[Outcome] = []
    for _ in range(2):
        async with await resumed() as session:
            outcomes += [await session.prompt("a", key="k"), await session.prompt("a", key="k")]
            with pytest.raises(InvalidParams):
                await session.prompt("b", key="k")

    assert outcomes == [outcomes[0]] * 4


async def test_errors_are_raised_as_they_are(answering: Answering) -> None:
    answering(Scripted([Reply(error=ModelUnreachable("gone"))] * 9))
    async with await resumed() as session:
        for nothing in ("", " ", []):
            with pytest.raises(ConfigurationError, match="empty"):
                await session.prompt(nothing)
        with pytest.raises(ConfigurationError, match="empty"):
            await session.steer("")
