"""Ladders that agents bring: they work, and whatever they do the session goes on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError
from support.person import conversation
from support.small_window import LONG, counter, is_summary, summing_up, told
from treadle.folders import CONFIG_VARIABLE

AGENT = """
import asyncio
from treadle import Definition, Strategy, build_ladder
from treadle.compaction.ladder import rest

class Own(Strategy):
    name = "own"
    async def work(self, env):
        {work}

def ladder(summariser):
    {ladder}

def agent():
    return Definition("You count.", tools=["read"], compaction={{"window": 4000}}, ladder=ladder)
"""


def write(work: str = "return None", ladder: str = "return Own(rest)") -> None:
    """Write the agent `counter` in Python, with a ladder of its own."""
    path = Path(os.environ[CONFIG_VARIABLE], "agents", "counter.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(AGENT.format(work=work, ladder=ladder))
    for each in (path, path.parent, path.parent.parent):
        each.chmod(0o700)


def ends(client: Daemon) -> list[tuple[str, list[str]]]:
    """Return outcomes and strategies of the compactions that have ended."""
    return [
        (one["outcome"], [strategy["name"] for strategy in one["strategies"]])
        for one in client.of("session/compacted")
    ]


async def goes_on(client: Daemon) -> None:
    done = await client.request("session/prompt", counter(prompt="Still there?"))
    assert done["text"] == "Re Still there?"


async def test_an_agents_own_strategy_comes_before_those_that_ship() -> None:
    write(ladder='return Own(build_ladder(["sliding_window"], summariser))')
    async with conversation(summing_up()) as (client, server):
        await told(client, 4)
        result = await client.request("session/compact", counter())
        assert result["outcome"] == "completed"
        assert ends(client) == [("completed", ["own", "sliding_window"])]
        assert not any(map(is_summary, server.requests))
        await goes_on(client)


async def test_an_own_strategy_that_raises_has_declined_and_the_next_goes_on() -> None:
    write(
        'env.conversation = None; raise ValueError("a slip")',
        'return Own(build_ladder(["sliding_window"], summariser))',
    )
    async with conversation(summing_up()) as (client, _):
        await told(client, 4)
        result = await client.request("session/compact", counter())
        assert result["outcome"] == "completed"
        own, window = client.of("session/compacted")[0]["strategies"]
        assert (own["name"], own["problem"]) == ("own", "ValueError: a slip")
        assert own["before"] == own["after"] == window["before"] > window["after"]
        await goes_on(client)


async def test_an_own_strategy_that_raises_alone_changes_nothing() -> None:
    write('raise ValueError("a slip")')
    async with conversation(summing_up()) as (client, server):
        await told(client, 4)
        result = await client.request("session/compact", counter())
        assert result["outcome"] == "declined"
        assert ends(client) == [("declined", ["own"])]
        await goes_on(client)
        assert server.requests[-1]["messages"][1]["content"] == f"0 {LONG}"


async def test_a_ladder_that_is_no_strategy_and_raises_is_told_and_changes_nothing() -> None:
    write(ladder='async def mine(env): raise ValueError("a slip")\n    return mine')
    async with conversation(summing_up()) as (client, server):
        await told(client, 4)
        result = await client.request("session/compact", counter())
        assert result["outcome"] == "failed"
        assert result["error"].startswith("the ladder failed")
        assert ends(client) == [("failed", [])]
        await goes_on(client)
        assert server.requests[-1]["messages"][1]["content"] == f"0 {LONG}"


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        ("return 1 / 0", "counter.py, line 12: its ladder failed: ZeroDivisionError: division by"),
        ("return None", "counter.py: its ladder must return what Stack().….build() returns"),
    ],
)
async def test_a_ladder_that_cannot_be_built_is_the_agents_problem_in_words(
    ladder: str, message: str
) -> None:
    write(ladder=ladder)
    async with conversation(summing_up()) as (client, _):
        for method, params in (
            ("session/prompt", counter(prompt="Hi")),
            ("session/compact", counter()),
        ):
            with pytest.raises(RpcError, match="invalid_agent") as error:
                await client.request(method, params)
            assert message in str(error.value)
        write(ladder="return Own(rest)")
        await goes_on(client)


STUBBORN = """while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass"""


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_one_that_does_not_end_is_left_behind_and_its_end_is_told_once(
    is_asked_for: bool,
) -> None:
    write(STUBBORN)
    async with conversation(summing_up()) as (client, _):
        work: asyncio.Future[Any]
        if is_asked_for:
            await told(client, 4)
            work = client.ask("session/compact", counter())
        else:
            work = asyncio.ensure_future(told(client, 30))
        await client.until(lambda: bool(client.of("session/compacting")))
        assert (await client.request("session/cancel", counter()))["cancelled"] is True
        write()
        if is_asked_for:
            assert (await work)["outcome"] == "cancelled"
        else:
            await client.until(lambda: client.of("session/done")[-1]["stopReason"] == "cancelled")
            work.cancel()
        begun = [one["id"] for one in client.of("session/compacting")][:1]
        ended = [(one["id"], one["outcome"]) for one in client.of("session/compacted")][:1]
        assert ended == [(begun[0], "cancelled")]
        await client.request("session/prompt", counter(prompt="Still there?"))
        told_of = [one["id"] for one in client.of("session/compacted")]
        assert told_of.count(begun[0]) == 1
