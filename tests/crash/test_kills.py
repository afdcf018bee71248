"""A daemon is killed at any moment: what it had announced is there, and everything goes on."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from crash.chain import Chain
from crash.mortal import Kill, Mortal, any_kill
from crash.story import WHOLE, answer, any_story
from support.forked import Starter, starter
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on
from support.strict_model import StrictModel

# Seeds of random lives; more of them by hand: `random-0:3000`, or one alone: `random-17`.
CHAINS_VARIABLE = "TREADLE_CRASH_CHAINS"
# With the kills at notifications more than 300, in less than 90 s on two busy cores.
RANDOM_CHAINS = 34
KILLS_PER_CHAIN = 8
# The notifications of a story are shared among so many chains.
STRIDE = 8
# More than a life's story has.
MOST_NOTIFICATIONS = 400
# Daemons at a time: their start and the test's own work fill two cores.
SIDE_BY_SIDE = 3

_HALF_A_LINE = b'{"role":"user","content":"never announced'


class House:
    """A provider for all chains, and whoever asks it."""

    def __init__(self, folder: Path, start: Starter) -> None:
        self.clients: dict[str, Mortal] = {}
        self.model = StrictModel(self._answer)
        self._folder = folder
        self._start = start
        self.env: dict[str, str] = {}

    def chain(self, name: str) -> Chain:
        return Chain(name, self._folder / name, self._start, self.env, self.clients)

    def _answer(self, request: Request) -> Answer:
        name = last_user_text(request).partition(".")[0]
        self.clients[name].passed("model requests")
        return answer(request)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    with starter() as start:
        house = House(tmp_path, start)
        async with ModelServer(house.model) as server:
            house.env = on(server)
            yield house
        assert house.model.refused == []


def _asked_for(kind: str, count: int) -> list[str]:
    """Return the names of chains: all, or those that the variable asks for."""
    wanted = os.environ.get(CHAINS_VARIABLE, "")
    if not wanted:
        return [f"{kind}-{seed}" for seed in range(count)]
    if not wanted.startswith(f"{kind}-"):
        pytest.skip("other chains are asked for")
    first, _, end = wanted.removeprefix(f"{kind}-").partition(":")
    return [f"{kind}-{seed}" for seed in range(int(first), int(end or int(first) + 1))]


async def _side_by_side(names: Iterable[str], run: Callable[[str], Awaitable[int]]) -> int:
    """Run chains, some at a time; return how many daemons they killed."""
    left = iter(names)

    async def worker() -> int:
        kills = 0
        for name in left:
            kills += await run(name)
        return kills

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(worker()) for _ in range(SIDE_BY_SIDE)]
    return sum(each.result() for each in workers)


async def test_a_kill_after_any_notification_loses_nothing_that_was_announced(
    house: House,
) -> None:
    async def run(name: str) -> int:
        chain = house.chain(name)
        first = int(name.rpartition("-")[2]) + 1
        for count in range(first, MOST_NOTIFICATIONS, STRIDE):
            if not await chain.live(WHOLE, Kill("notifications", count)):
                break
        await chain.end()
        return chain.kills

    names = _asked_for("notification", STRIDE)
    assert await _side_by_side(names, run) >= 7 * len(names)


async def test_a_kill_at_any_byte_or_moment_loses_nothing_that_was_announced(
    house: House,
) -> None:
    async def run(name: str) -> int:
        chain = house.chain(name)
        chance = random.Random(name)
        for _ in range(KILLS_PER_CHAIN):
            await chain.live(any_story(chance), any_kill(chance))
            if chance.random() < 0.2:
                chain.tear(chance.choice("abcd"), _HALF_A_LINE[: chance.randint(1, 40)])
            if chance.random() < 0.2:
                await chain.die_early(Kill("milliseconds", chance.randint(0, 30)))
        await chain.end()
        return chain.kills

    names = _asked_for("random", RANDOM_CHAINS)
    assert await _side_by_side(names, run) >= 5 * len(names)
