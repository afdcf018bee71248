"""Prompts, resumes, cancels and closes in any order: each prompt ends once, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest

from support.person import stored
from support.sessions import prompt
from treadle.agents.options import SessionOptions
from treadle.errors import ModelUnreachable, RequestFailed
from treadle.models.answer import say_answer, say_partial
from treadle.models.completion import Delta
from treadle.runtime.outbox import Pair, SessionEvent, TurnEnded
from treadle.runtime.prompt import Outcome
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Session
from treadle.runtime.turn_in_flight import STOP_SECONDS
from treadle.thread import journal
from treadle.thread.message import ToolCall
from treadle.thread.repair import view
from treadle.thread.replay import load
from treadle.turn.env import Env

SCHEDULES = 200
SCHEDULES_EACH = 25
PAIRS = [Pair("assistant", "one"), Pair("assistant", "two")]


class _Schedule:
    """One course of events, decided by its seed."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self._runtime = runtime
        self._chance = random.Random(seed)
        self.events: dict[Pair, list[SessionEvent]] = {pair: [] for pair in PAIRS}
        self.prompts: list[tuple[Pair, asyncio.Task[Outcome]]] = []
        self.others: list[asyncio.Task[Any]] = []

    async def answer(self, env: Env) -> None:
        """Answer at some pace: with text, with calls, or with an error."""
        text = ""
        try:
            for word in ["one", "two", "three"][: self._chance.randint(0, 3)]:
                await self._pause()
                text += word
                env.emit("delta", Delta("text", word))
            if self._chance.random() < 0.15:
                raise ModelUnreachable("the schedule says so")
        except (ModelUnreachable, asyncio.CancelledError):
            await say_partial(env, model="m", text=text)
            raise
        calls = [ToolCall(f"c{len(env.messages)}", "read", {"path": "x"})]
        wants_tools = env.iteration < 3 and self._chance.random() < 0.3
        await say_answer(
            env,
            model="m",
            finish_reason="stop",
            text=text or "nothing",
            reasoning="",
            calls=calls if wants_tools else [],
            usage=None,
        )

    async def run(self) -> None:
        """Do what the seed says, then wait for all that was begun."""
        for _ in range(self._chance.randint(4, 24)):
            self._act(self._chance.choice(PAIRS))
            await self._pause()
        everything = [*(task for _, task in self.prompts), *self.others]
        # Less than a stop waits in vain: whatever is stopped here ends at once.
        async with asyncio.timeout(STOP_SECONDS - 0.5):
            await asyncio.gather(*everything, return_exceptions=True)

    async def prompt(self, pair: Pair, text: str) -> Outcome:
        """Prompt as a handler does."""
        return await self._session(pair).prompt(prompt(text))

    async def close(self, pair: Pair) -> bool:
        """Close as a handler does."""
        session = self._runtime.find(pair)
        return await session.close() if session else False

    async def _resume(self, pair: Pair) -> None:
        await self._session(pair).resume(SessionOptions())

    async def _stop(self, pair: Pair, action: str) -> None:
        session = self._runtime.find(pair)
        if action == "close":
            await self.close(pair)
        elif session is not None:
            await session.cancel()

    def _session(self, pair: Pair) -> Session:
        session = self._runtime.session(pair)
        session.outbox.watch(self.events[pair].append)
        return session

    def _act(self, pair: Pair) -> None:
        action = self._chance.choices(
            ["prompt", "resume", "cancel", "close", "take back"], [8, 2, 3, 2, 2]
        )[0]
        if action == "prompt":
            self.prompts.append((pair, asyncio.create_task(self.prompt(pair, "Go"))))
        elif action == "take back":
            _, task = self._chance.choice(self.prompts or [(pair, None)])  # type: ignore[list-item]
            if task is not None:
                task.cancel()
        elif action == "resume":
            self.others.append(asyncio.create_task(self._resume(pair)))
        else:
            self.others.append(asyncio.create_task(self._stop(pair, action)))

    async def _pause(self) -> None:
        for _ in range(self._chance.choice([0, 0, 1, 2, 5, 12])):
            await asyncio.sleep(0)
        if self._chance.random() < 0.1:
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("first_seed", range(0, SCHEDULES, SCHEDULES_EACH))
async def test_each_prompt_ends_once_whatever_races(
    runtime: Runtime, answering: Any, monkeypatch: pytest.MonkeyPatch, first_seed: int
) -> None:
    # What is raced here is not the device.
    monkeypatch.setattr(journal, "sync", lambda descriptor: None)
    for seed in range(first_seed, first_seed + SCHEDULES_EACH):
        schedule = _Schedule(runtime, seed)
        answering(schedule.answer)
        for pair in PAIRS:
            stored(*pair).unlink(missing_ok=True)
        await schedule.run()
        for pair in PAIRS:
            _assert_ended_once(schedule, pair)
            await _assert_usable(schedule, pair)
            _assert_whole(pair)
        await asyncio.sleep(0.001)
        assert runtime._sessions == {}


def _assert_ended_once(schedule: _Schedule, pair: Pair) -> None:
    asked = [task for asked_of, task in schedule.prompts if asked_of == pair]
    outcomes: Counter[str] = Counter()
    for task in asked:
        if task.cancelled():
            outcomes["taken back"] += 1
        elif (error := task.exception()) is not None:
            assert isinstance(error, RequestFailed), error
            outcomes["error"] += 1
        else:
            outcomes[task.result().done.stop_reason] += 1
    ends = Counter(
        event.payload.done.stop_reason
        for event in schedule.events[pair]
        if isinstance(event.payload, TurnEnded)
    )
    # A prompt that was taken back before its turn came has no end of its own.
    taken_back = outcomes.pop("taken back", 0)
    assert ends >= outcomes
    assert (ends - outcomes).total() <= taken_back
    seqs = [event.seq for event in schedule.events[pair]]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True


async def _assert_usable(schedule: _Schedule, pair: Pair) -> None:
    """The session takes the next prompt, and its close leaves nothing."""
    try:
        outcome = await schedule.prompt(pair, "Next")
        assert outcome.done.stop_reason in ("end_turn", "max_turns")
    except ModelUnreachable:
        pass
    assert await schedule.close(pair)
    path = stored(*pair)
    assert list(path.parent.glob(f"{path.stem}*.lock")) == []


def _assert_whole(pair: Pair) -> None:
    """The thread's file has an end for each start, and its view is what was said."""
    path = stored(*pair)
    loaded = load(path)
    assert loaded.unfinished is None
    assert loaded.report == type(loaded.report)()
    records = [json.loads(line).get("turn") for line in path.read_bytes().splitlines()]
    turns = [turn for turn in records if isinstance(turn, dict)]
    assert [(turn["number"], turn["event"]) for turn in turns] == [
        (number, event) for number in range(1, loaded.turns + 1) for event in ("start", "end")
    ]
    assert view(loaded.messages) == loaded.messages
