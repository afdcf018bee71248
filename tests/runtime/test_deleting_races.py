"""Prompts, rewinds, forks, closes, deletions in any order: each ends once, threads stay whole."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable
from typing import Any

import pytest

from support.person import stored, write_config
from support.sessions import PAIR, Answering, ask, prompt
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.errors import (
    NoSuchOrdinal,
    NotRunning,
    RequestFailed,
    StorageDegraded,
    ThreadExists,
    UnknownSession,
)
from treadle.models.answer import say_answer
from treadle.models.scripted import Scripted
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime
from treadle.thread import files
from treadle.thread.message import ToolCall
from treadle.thread.replay import load
from treadle.thread.verify import verify
from treadle.turn.env import Env

PAIRS = [Pair("assistant", name) for name in "abc"]
# In a few seconds on two busy cores; a race that is lost here is lost in one of a hundred.
SEEDS = 80
# What may be answered where the others were quicker.
LOST = (NoSuchOrdinal, NotRunning, ThreadExists, UnknownSession)


class _Schedule:
    def __init__(self, runtime: Runtime, seed: int) -> None:
        self._chance = random.Random(seed)
        self._runtime = runtime
        self._said = 0
        self.tasks: list[asyncio.Task[Any]] = []

    async def answer(self, env: Env) -> None:
        for _ in range(self._chance.randint(0, 3)):
            await asyncio.sleep(0)
        calls = [ToolCall(f"c{len(env.messages)}", "read", {"path": "x"})]
        wants_tools = env.iteration < 3 and self._chance.random() < 0.3
        await say_answer(
            env,
            model="m",
            finish_reason="stop",
            text=f"Re {env.messages[-1].text[:20]}",
            reasoning="",
            calls=calls if wants_tools else [],
            usage=None,
        )

    def _act(self) -> Awaitable[Any]:
        pair, other = self._chance.sample(PAIRS, 2)
        session = self._runtime.session(pair)
        action = self._chance.choices(
            ["prompt", "keyed", "steer", "rewind", "fork", "delete", "close", "read", "list"],
            [8, 3, 3, 3, 3, 3, 2, 2, 1],
        )[0]
        self._said += 1
        text = f"word {self._said}"
        if action == "prompt":
            return session.prompt(prompt(text))
        if action == "keyed":
            way = self._chance.choice(["queue", "steer"])
            return session.prompt(prompt("Go", key=self._chance.choice("kl"), when_busy=way))
        if action == "steer":
            return session.steer(prompt(text))
        if action == "rewind":
            return session.rewind(self._chance.choice([-1, 0, 1, 3]))
        if action == "fork":
            at = self._chance.choice([None, None, 1])
            return self._runtime.session(other).begin_as(self._runtime.copier(pair, other, at))
        if action == "read":
            return self._read(pair)
        if action == "list":
            return self._runtime.summaries()
        return session.delete() if action == "delete" else session.close()

    async def _read(self, pair: Pair) -> None:
        reading = await self._runtime.read(pair)
        page = await asyncio.to_thread(reading.page, 0, 1000)
        assert [one.ordinal for one in page.messages] == list(range(len(page.messages)))

    async def _do(self) -> Any:
        return await self._act()

    async def run(self) -> None:
        for _ in range(self._chance.randint(6, 24)):
            self.tasks.append(asyncio.create_task(self._do()))
            for _ in range(self._chance.choice([0, 0, 1, 2, 5, 12])):
                await asyncio.sleep(0)
            if self._chance.random() < 0.2:
                await asyncio.sleep(0.002)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.parametrize("durability", ["file", "memory"])
async def test_whatever_is_deleted_meanwhile_each_call_ends_and_threads_stay_whole(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    # What is raced here is not the device.
    monkeypatch.setattr(files, "sync", lambda descriptor: None)
    write_config(f'[sessions]\nidle_seconds = 0.003\ndurability = "{durability}"\n')
    for seed in range(SEEDS):
        schedule = _Schedule(runtime, seed)
        answering(schedule.answer)
        await schedule.run()
        for task in schedule.tasks:
            error = task.exception()
            assert error is None or isinstance(error, LOST), (seed, repr(error))
        for pair in PAIRS:
            async with asyncio.timeout(PATIENCE_SECONDS):
                outcome = await ask(runtime, "Next", pair)
                assert outcome.done.stop_reason == "end_turn"
                await runtime.session(pair).close()
            _assert_once(pair)
        assert list(verify(runtime.services.folders.data)) == [], seed
        for pair in PAIRS:
            assert await runtime.session(pair).delete()
            assert not stored(*pair).exists()
        assert list(runtime.services.folders.data.rglob("*.*")) == []
        await until_seen(lambda: runtime._sessions == {})


def _assert_once(pair: Pair) -> None:
    """No word stands in a thread twice."""
    said = [one.text for one in load(stored(*pair)).messages if one.text.startswith("word")]
    assert len(said) == len(set(said))


async def test_a_deletion_of_a_session_that_nobody_opened_is_a_deletion_too(
    runtime: Runtime, answering: Answering
) -> None:
    assert not await runtime.session(PAIR).delete()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert runtime.find(PAIR) is None
    stored(*PAIR).parent.mkdir(parents=True)
    stored(*PAIR).write_bytes(b"not json\n")
    assert await runtime.session(PAIR).delete()
    stored(*PAIR).mkdir()
    with pytest.raises(RequestFailed) as refused:
        await runtime.session(PAIR).delete()
    assert refused.value.reason == "thread_unreadable"
    stored(*PAIR).rmdir()


async def test_a_deletion_that_the_disk_refuses_leaves_the_session_open(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(Scripted(["One.", "Two."]))
    await ask(runtime, "a")
    session = runtime.session(PAIR)
    with monkeypatch.context() as patch:
        # Whoever runs the tests may be allowed to write everywhere.
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        with pytest.raises(StorageDegraded, match="is as it was"):
            await session.delete()
    assert session.state == "idle"
    assert (await ask(runtime, "b")).messages == (2, 3)
    assert await session.delete()
    assert not stored(*PAIR).exists()
