"""Prompts, steering, keys, resumes, cancels and closes in any order.

Each prompt ends once, each turn is told once, no accepted word is lost, and nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from support.person import stored, write_config
from support.sessions import EventLog, prompt
from support.waiting import until_seen
from treadle.agents.options import SessionOptions
from treadle.errors import ModelUnreachable, NotRunning, RequestFailed
from treadle.models.answer import say_answer, say_partial
from treadle.models.completion import Delta
from treadle.runtime.outbox import Pair, TurnEnded
from treadle.runtime.prompt import Outcome, Prompt, Steered
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Session
from treadle.runtime.turn_in_flight import STOP_SECONDS
from treadle.thread import files
from treadle.thread.message import ToolCall
from treadle.thread.repair import view
from treadle.thread.replay import load
from treadle.turn import retry
from treadle.turn.env import Env

SCHEDULES = 200
SCHEDULES_EACH = 25
PAIRS = [Pair("assistant", "one"), Pair("assistant", "two")]


class _Schedule:
    """One course of events, decided by its seed."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self._runtime = runtime
        self._chance = random.Random(seed)
        self._seed = f" of {seed}"
        self.events = {pair: EventLog() for pair in PAIRS}
        self.prompts: list[tuple[Pair, asyncio.Task[Outcome]]] = []
        self.asked: list[tuple[Pair, Prompt]] = []
        self.steered: list[tuple[Pair, str, asyncio.Task[Steered]]] = []
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
        steered = (task for _, _, task in self.steered)
        everything = [*(task for _, task in self.prompts), *steered, *self.others]
        # Less than a stop waits in vain: whatever is stopped here ends at once.
        async with asyncio.timeout(STOP_SECONDS - 0.5):
            await asyncio.gather(*everything, return_exceptions=True)

    async def prompt(self, pair: Pair, said: Prompt) -> Outcome:
        """Prompt as a handler does."""
        return await self._session(pair).prompt(said)

    async def steer(self, pair: Pair, text: str) -> Steered:
        """Steer as a handler does."""
        return await self._session(pair).steer(prompt(text))

    async def close(self, pair: Pair) -> bool:
        """Close as a handler does."""
        session = self._runtime.find(pair)
        return await session.close() if session else False

    async def resume(self, pair: Pair) -> None:
        """Resume as a handler does."""
        await self._session(pair).resume(SessionOptions())

    async def _stop(self, pair: Pair, action: str) -> None:
        session = self._runtime.find(pair)
        if action == "close":
            await self.close(pair)
        elif session is not None:
            await session.cancel()

    async def _stop_prompt(self, pair: Pair, said: Prompt) -> None:
        session = self._runtime.find(pair)
        if session is not None:
            await session.stop_prompt(said)

    def _steer(self, pair: Pair) -> None:
        text = f"word {len(self.steered)}"
        self.steered.append((pair, text, asyncio.create_task(self.steer(pair, text))))

    def _prompt(self, pair: Pair) -> Prompt:
        """Ask in one of the ways there are; the same key always says the same."""
        way = self._chance.random()
        text = "Go" if way < 0.3 else f"Go {len(self.asked)}"
        said = prompt(
            text,
            when_busy="steer" if way > 0.6 else "queue",
            key=self._chance.choice(["k1", "k2"]) + self._seed if text == "Go" else None,
        )
        self.asked.append((pair, said))
        return said

    def _session(self, pair: Pair) -> Session:
        session = self._runtime.session(pair)
        session.outbox.watch(self.events[pair].take)
        return session

    def _act(self, pair: Pair) -> None:
        action = self._chance.choices(
            ["prompt", "steer", "resume", "cancel", "close", "take back", "stop"],
            [8, 4, 2, 3, 2, 2, 2],
        )[0]
        if action == "prompt":
            task = asyncio.create_task(self.prompt(pair, self._prompt(pair)))
            self.prompts.append((pair, task))
        elif action == "steer":
            self._steer(pair)
        elif action == "stop":
            for of, said in self.asked and [self._chance.choice(self.asked)]:
                self.others.append(asyncio.create_task(self._stop_prompt(of, said)))
        elif action == "take back":
            _, task = self._chance.choice(self.prompts or [(pair, None)])  # type: ignore[list-item]
            if task is not None:
                task.cancel()
        elif action == "resume":
            self.others.append(asyncio.create_task(self.resume(pair)))
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
    monkeypatch.setattr(files, "sync", lambda descriptor: None)
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.002)
    write_config("[models]\nmax_retries = 1\n[sessions]\nidle_seconds = 0.003\n")
    for seed in range(first_seed, first_seed + SCHEDULES_EACH):
        schedule = _Schedule(runtime, seed)
        answering(schedule.answer)
        for pair in PAIRS:
            stored(*pair).unlink(missing_ok=True)
        await schedule.run()
        for pair in PAIRS:
            await _assert_quiet(schedule, pair)
            _assert_ended_once(schedule, pair)
            _assert_no_word_is_lost(schedule, pair)
            await _assert_usable(schedule, pair)
            _assert_whole(pair)
        await until_seen(lambda: runtime._sessions == {})


async def _assert_quiet(schedule: _Schedule, pair: Pair) -> None:
    """Turns that steering began are awaited by nobody; a resume waits behind them."""
    async with asyncio.timeout(STOP_SECONDS):
        await schedule.resume(pair)


def _assert_ended_once(schedule: _Schedule, pair: Pair) -> None:
    """Each turn was told once, and each prompt has the outcome of the turn it was in."""
    ends = [
        (event.turn, event.payload)
        for event in schedule.events[pair]
        if isinstance(event.payload, TurnEnded)
    ]
    begun = [turn for turn, _ in ends if turn is not None]
    assert begun == list(range(1, len(begun) + 1))
    # What a turn's own task was ended by is nobody's business later.
    told = {turn: replace(ended.done, error=None) for turn, ended in ends}
    errors = [ended.error for _, ended in ends]
    for asked_of, task in schedule.prompts:
        if asked_of != pair or task.cancelled():
            continue
        if (error := task.exception()) is not None:
            assert isinstance(error, RequestFailed), error
            assert error in errors
        elif (outcome := task.result()).turn is not None:
            assert told[outcome.turn] == replace(outcome.done, error=None)
        else:
            assert outcome.done.stop_reason in ("cancelled", "closed")
    seqs = [event.seq for event in schedule.events[pair]]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True


def _assert_no_word_is_lost(schedule: _Schedule, pair: Pair) -> None:
    """What entered a turn stands in the thread once, in that turn if it had a number."""
    kept = [(message.text, message.turn) for message in load(stored(*pair)).messages]
    for of, text, task in schedule.steered:
        if of != pair:
            continue
        places = [turn for said, turn in kept if said == text]
        if (error := task.exception()) is not None:
            assert (type(error), places) == (NotRunning, [])
        elif task.result().injected:
            assert len(places) == 1
            assert task.result().turn in (None, *places)
        else:
            assert len(places) <= 1


async def _assert_usable(schedule: _Schedule, pair: Pair) -> None:
    """The session takes the next prompt, and its close leaves nothing."""
    try:
        outcome = await schedule.prompt(pair, prompt("Next"))
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
