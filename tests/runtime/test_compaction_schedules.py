"""Prompts, steering, cancels, closes, compactions and kills in any order, around slow summaries.

Each prompt ends once; each compaction that was told to begin is told to end, once; what a kill
leaves at any moment loads, holds what was promised, and is a conversation that a model takes.

All 1,000 courses run where TREADLE_ALL_SCHEDULES is set; otherwise the first few of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.person import stored, write_agent, write_config
from support.sessions import Answering, EventLog, prompt
from support.survived import Killed, loads, survived, wrong_with
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.compaction.request import INSTRUCTIONS
from treadle.compaction.told import Compacted, Compacting
from treadle.errors import ContextOverflow, ModelUnreachable, NotRunning, RequestFailed
from treadle.models.answer import say_answer, say_partial
from treadle.models.completion import Delta
from treadle.runtime import summarising
from treadle.runtime.compacting import CompactionAsked
from treadle.runtime.outbox import Pair, TurnEnded
from treadle.runtime.prompt import Outcome, Prompt, Steered
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Session
from treadle.thread import files
from treadle.thread.message import Message, ToolCall, Usage
from treadle.turn import retry
from treadle.turn.env import Env

ALL_SCHEDULES = 1_000
SCHEDULES = ALL_SCHEDULES if "TREADLE_ALL_SCHEDULES" in os.environ else 120
SCHEDULES_EACH = 20
PAIR = Pair("counter", "raced")

# With this window a compaction is due after a few turns, and the thread begins with some.
WINDOW = 3_000
TURNS_BEFORE = 3

LONG = "apples and pears in the basket " * 40
SUMMARY = """\
## Objective
Count apples.
## Decisions
Nothing.
## Work done
Apples were counted.
## Identifiers
basket-7741
## Outstanding
Nothing."""

_ACTIONS = "prompt", "steer", "compact", "cancel", "close", "kill", "take back", "stop"
_WEIGHTS = 7, 3, 6, 3, 1, 3, 2, 2


class _Schedule:
    """One course of events, decided by its seed.

    Attributes:
        spoilt: why a strict provider would have refused what a model was sent.
    """

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self._runtime = runtime
        self._chance = random.Random(seed)
        self._watched: list[Session] = []
        self.events = EventLog()
        self.prompts: list[asyncio.Task[Outcome]] = []
        self.asked: list[Prompt] = []
        self.steered: list[asyncio.Task[Steered]] = []
        self.compactions: list[tuple[CompactionAsked, asyncio.Task[Compacted]]] = []
        self.others: list[asyncio.Task[Any]] = []
        self.killed: list[Killed] = []
        self.spoilt: list[str] = []

    async def answer(self, env: Any) -> None:
        """Answer at some pace: a summary well or badly, a turn with text, calls or an error."""
        if env.messages[0].text == INSTRUCTIONS:
            await self._sum_up(env)
            return
        self.spoilt += filter(None, [wrong_with(env.messages)])
        await self._say(env)

    async def run(self) -> None:
        """Do what the seed says, then wait for all that was begun."""
        for _ in range(self._chance.randint(4, 20)):
            self._act()
            await self._pause()
            if self._chance.random() < 0.3:
                await self._while_one_begins()
        compactions = [task for _, task in self.compactions]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(
                *self.prompts, *compactions, *self.steered, *self.others, return_exceptions=True
            )
            # Turns that steering began are awaited by nobody; this waits behind them.
            await self.session().resume(prompt("").options)

    def session(self) -> Session:
        """Return the session that there is now, watched."""
        session = self._runtime.session(PAIR)
        if session not in self._watched:
            self._watched.append(session)
            session.outbox.watch(self.events.take)
        return session

    async def prompt(self, said: Prompt) -> Outcome:
        """Prompt as a handler does: session and prompt in one step."""
        return await self.session().prompt(said)

    def of(self, *kinds: type) -> list[Any]:
        """Return the payloads of some kinds, as they were told."""
        return [event.payload for event in self.events if isinstance(event.payload, kinds)]

    async def _steer(self, said: Prompt) -> Steered:
        return await self.session().steer(said)

    async def _compact(self, asked: CompactionAsked) -> Compacted:
        return await self.session().compact(asked)

    async def _sum_up(self, env: Any) -> None:
        # Half of them are slower than most of what comes between.
        for _ in range(self._chance.choice([0, 2, 10, 30])):
            await self._pause()
        way = self._chance.random()
        if way < 0.08:
            raise ModelUnreachable("the schedule says so")
        if way < 0.12:
            raise ContextOverflow("the schedule says so")
        if way < 0.15:
            raise ValueError("the schedule says so")
        text = SUMMARY if way > 0.25 else "What?"
        await env.append(Message("assistant", text, usage=Usage(9, 4)))

    async def _say(self, env: Env) -> None:
        text = ""
        try:
            for word in ["one", "two", "three"][: self._chance.randint(0, 3)]:
                await self._pause()
                text += word
                env.emit("delta", Delta("text", word))
            if (way := self._chance.random()) < 0.15:
                raise ModelUnreachable("no") if way < 0.06 else ContextOverflow("too long")
        except (ModelUnreachable, ContextOverflow, asyncio.CancelledError):
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

    def _act(self) -> None:
        action = self._chance.choices(_ACTIONS, _WEIGHTS)[0]
        if action == "prompt":
            self.asked.append(self._prompt())
            self.prompts.append(asyncio.create_task(self.prompt(self.asked[-1])))
        elif action == "steer":
            said = prompt(f"word {len(self.steered)}")
            self.steered.append(asyncio.create_task(self._steer(said)))
        elif action == "compact":
            asked = CompactionAsked("Keep the basket.")
            compacting = asyncio.create_task(self._compact(asked))
            self.compactions.append((asked, compacting))
        elif action == "kill":
            self._kill()
        elif action == "take back":
            tasks: list[asyncio.Task[Any]] = [*self.prompts, *(one for _, one in self.compactions)]
            for task in tasks and [self._chance.choice(tasks)]:
                task.cancel()
        elif (session := self._runtime.find(PAIR)) is not None:
            self.others += map(asyncio.create_task, self._stops(action, session))

    def _stops(self, action: str, session: Session) -> list[Coroutine[Any, Any, Any]]:
        """Stop what runs, or one thing that was asked for."""
        if action == "cancel":
            return [session.cancel()]
        if action == "close":
            return [session.close()]
        if self._chance.random() < 0.5:
            chosen = self.compactions and [self._chance.choice(self.compactions)]
            return [asked.stop() for asked, _ in chosen]
        return [
            session.stop_prompt(one) for one in self.asked and [self._chance.choice(self.asked)]
        ]

    def _kill(self) -> None:
        """Take what the file holds at this moment: all that SIGKILL leaves."""
        completed = {one.id for one in self.of(Compacted) if one.outcome == "completed"}
        ended = {one.turn for one in self.events if isinstance(one.payload, TurnEnded) and one.turn}
        self.killed.append(Killed(stored(*PAIR).read_bytes(), completed, ended))

    def _prompt(self) -> Prompt:
        number = len(self.asked)
        when_busy = "steer" if self._chance.random() < 0.3 else "queue"
        text = f"Go {number} {LONG}" if self._chance.random() < 0.7 else f"Go {number}"
        return prompt(text, when_busy=when_busy)

    async def _while_one_begins(self) -> None:
        """Wait a while for a compaction to begin: what comes next meets it."""
        begun = len(self.of(Compacting))
        for _ in range(30):
            if len(self.of(Compacting)) > begun:
                return
            await asyncio.sleep(0.0005)

    async def _pause(self) -> None:
        for _ in range(self._chance.choice([0, 0, 1, 2, 5, 12])):
            await asyncio.sleep(0)
        if self._chance.random() < 0.1:
            await asyncio.sleep(0.002)


@pytest.fixture
async def before(runtime: Runtime, answering: Answering) -> bytes:
    """Return the file of a thread that has a few long turns."""
    write_agent("counter", tools="[read]", compaction=f"{{window: {WINDOW}}}")

    async def answer(env: Any) -> None:
        await env.append(Message("assistant", "So it is."))

    answering(answer)
    session = runtime.session(PAIR)
    for number in range(TURNS_BEFORE):
        await session.prompt(prompt(f"{number} {LONG}"))
    await session.close()
    await until_seen(lambda: runtime._sessions == {})
    return stored(*PAIR).read_bytes()


@pytest.mark.parametrize("first_seed", range(0, SCHEDULES, SCHEDULES_EACH))
async def test_each_prompt_and_each_compaction_ends_once_and_a_kill_takes_nothing_promised(
    runtime: Runtime,
    answering: Answering,
    before: bytes,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    first_seed: int,
) -> None:
    # What is raced here is not the device.
    monkeypatch.setattr(files, "sync", lambda descriptor: None)
    monkeypatch.setattr(retry, "FIRST_WAIT_SECONDS", 0.002)
    monkeypatch.setattr(summarising, "FIRST_WAIT_SECONDS", 0.002)
    write_config("[models]\nmax_retries = 1\n")
    outcomes: set[str] = set()
    for seed in range(first_seed, first_seed + SCHEDULES_EACH):
        stored(*PAIR).write_bytes(before)
        schedule = _Schedule(runtime, seed)
        answering(schedule.answer)
        await schedule.run()
        assert schedule.spoilt == []
        _assert_prompts_ended_once(schedule)
        _assert_compactions_ended_once(schedule)
        await _assert_usable(runtime, schedule)
        _assert_whole(stored(*PAIR), schedule)
        for number, killed in enumerate(schedule.killed):
            survived(killed, tmp_path / f"killed-{seed}-{number}.jsonl")
        outcomes |= {one.outcome for one in schedule.of(Compacted)}
    assert {"completed", "cancelled", "declined"} <= outcomes


def _assert_prompts_ended_once(schedule: _Schedule) -> None:
    """Each turn was told once, and each prompt has the outcome of the turn it was in."""
    ends = [
        (event.turn, event.payload)
        for event in schedule.events
        if isinstance(event.payload, TurnEnded)
    ]
    begun = [turn for turn, _ in ends if turn is not None]
    assert begun == list(range(TURNS_BEFORE + 1, TURNS_BEFORE + 1 + len(begun)))
    told = {turn: replace(ended.done, error=None) for turn, ended in ends}
    errors = [ended.error for _, ended in ends]
    for task in schedule.prompts:
        if task.cancelled():
            continue
        if (error := task.exception()) is not None:
            assert isinstance(error, RequestFailed), error
            assert error in errors
        elif (outcome := task.result()).turn is not None:
            assert told[outcome.turn] == replace(outcome.done, error=None)
        else:
            assert outcome.done.stop_reason in ("cancelled", "closed")
    for steering in schedule.steered:
        assert steering.exception() is None or isinstance(steering.exception(), NotRunning)


def _assert_compactions_ended_once(schedule: _Schedule) -> None:
    """What begins ends before anything else begins, and before its turn does; callers know it."""
    told = schedule.of(Compacting, Compacted, TurnEnded)
    begun: Compacting | None = None
    outcomes: dict[str, str] = {}
    for one in told:
        if isinstance(one, Compacting):
            assert begun is None and one.id not in outcomes
            begun = one
        elif isinstance(one, Compacted):
            assert begun is not None and one.id == begun.id
            outcomes[one.id] = one.outcome
            begun = None
        else:
            assert begun is None
    assert begun is None
    for _, task in schedule.compactions:
        if not task.cancelled():
            compacted = task.result()
            assert compacted.outcome == outcomes.get(compacted.id, "cancelled")


async def _assert_usable(runtime: Runtime, schedule: _Schedule) -> None:
    """The session takes the next prompt, and its close leaves nothing."""
    try:
        outcome = await schedule.prompt(prompt("Next"))
        assert outcome.done.stop_reason in ("end_turn", "max_turns")
    except (ModelUnreachable, ContextOverflow):
        pass
    assert await schedule.session().close()
    await until_seen(lambda: runtime._sessions == {})
    path = stored(*PAIR)
    assert list(path.parent.glob(f"{path.stem}*.lock")) == []


def _assert_whole(path: Path, schedule: _Schedule) -> None:
    """The file has an end for each start, and the record of each compaction that counts."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    turns = [line["turn"] for line in lines if isinstance(line.get("turn"), dict)]
    assert [(turn["number"], turn["event"]) for turn in turns] == [
        (number, event) for number in range(1, len(turns) // 2 + 1) for event in ("start", "end")
    ]
    completed = [one.id for one in schedule.of(Compacted) if one.outcome == "completed"]
    assert [line["compacted"]["id"] for line in lines if "compacted" in line] == completed
    loads(path)
