"""A thread around turns: what `SessionLog` keeps, seen through an agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from treadle.errors import ThreadLocked
from treadle.thread.lock import holder
from treadle.thread.message import Message
from treadle.thread.replay import load
from treadle.thread.thread import Thread
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.session_log import SessionLog


async def count_messages(env: Env) -> None:
    """Answer with the number of messages seen."""
    await env.append(Message("assistant", f"{len(env.messages)} so far"))


async def test_the_second_turn_on_a_path_sees_the_first(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    agent = Agent().use(SessionLog, path=path).run(count_messages)

    await agent.start("one")
    env = await agent.start("two")

    assert [message.text for message in env.messages] == ["one", "1 so far", "two", "3 so far"]
    assert load(path).messages == env.messages
    assert (load(path).turns, load(path).unfinished) == (2, None)
    assert not (tmp_path / "chat.lock").exists()


async def test_the_person_is_on_disk_before_the_model_is_asked(tmp_path: Path) -> None:
    path, seen = tmp_path / "chat.jsonl", list[Message]()

    async def look(env: Env) -> None:
        seen.extend(load(path).messages)
        await env.append(Message("assistant", "ok"))

    env = await Agent().use(SessionLog, path=path).run(look).start("hi")

    assert seen == env.messages[:1]


async def test_a_turn_that_is_cancelled_is_recorded_and_lets_the_thread_go(tmp_path: Path) -> None:
    path, entered = tmp_path / "chat.jsonl", asyncio.Event()

    async def think(env: Env) -> None:
        entered.set()
        await asyncio.Event().wait()

    turn = asyncio.create_task(Agent().use(SessionLog, path=path).run(think).start("hi"))
    await asyncio.wait_for(entered.wait(), 10)
    with pytest.raises(ThreadLocked):
        Thread.open(path)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert b'"stop_reason":"cancelled"' in path.read_bytes().splitlines()[-1]
    assert [message.text for message in load(path).messages] == ["hi"]
    assert holder(path) is None


async def test_a_thread_that_somebody_else_opened_stays_open(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    agent = Agent().use(SessionLog, thread=thread).run(count_messages)

    first = await agent.start("one")
    second = await agent.start("two")

    assert (first.metadata["turn"], second.metadata["turn"]) == (1, 2)
    assert thread.messages == second.messages
    thread.close()
