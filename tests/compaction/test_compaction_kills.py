"""SIGKILL around a compaction of a real daemon: what was told by then is kept, and all goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from support.daemon import Daemon
from support.forked import Starter, starter
from support.long_talk import is_summary, summary_of
from support.model_server import Answer, ModelServer, Request
from support.person import on, pair, stored, write_agent
from support.strict_model import StrictModel
from support.survived import Killed, survived

LONG = "apples and pears in the basket " * 40
COUNTER = pair("killed", "counter")

# Each moment is met so often, for a kill comes a little sooner or later.
TIMES = 2
MOMENTS = ("asked", "begun", "summing up", "ended", "prompted")


def answer(request: Request) -> Answer:
    if is_summary(request):
        answered = summary_of(request)
        # Piece by piece, so that there is a middle to be killed in.
        answered.text = "".join(answered.text)
        answered.interval_seconds = 0.001
        return answered
    return Answer(["So it is."])


def until(moment: str, client: Daemon, server: ModelServer) -> Callable[[], bool]:
    """Return whether the moment has come since now."""

    def passed() -> int:
        return {
            "asked": 0,
            "begun": len(client.of("session/compacting")),
            "summing up": sum(map(is_summary, server.requests)),
            "ended": len(client.of("session/compacted")),
            "prompted": len(client.of("session/done")),
        }[moment]

    before = passed()
    return lambda: moment == "asked" or passed() > before


def killed(client: Daemon) -> Killed:
    """Return what lies there now, and what this life was told."""
    ends = client.of("session/compacted")
    return Killed(
        stored("counter", "killed").read_bytes(),
        {one["id"] for one in ends if one["outcome"] == "completed"},
        {one["turn"] for one in client.of("session/done")},
    )


@contextlib.asynccontextmanager
async def life(start: Starter, server: ModelServer) -> AsyncIterator[Daemon]:
    """Start a daemon; it is dead at the end."""
    client = Daemon(await start(env={**os.environ, **on(server)}))
    try:
        await client.initialize()
        yield client
    finally:
        await client.kill()


async def test_a_kill_around_a_compaction_takes_nothing_that_was_told(tmp_path: Path) -> None:
    write_agent("counter", tools="[read]", compaction="{window: 4000}")
    model = StrictModel(answer)
    with starter() as start:
        async with ModelServer(model) as server:
            for number, moment in enumerate(MOMENTS * TIMES):
                async with life(start, server) as client:
                    await _killed_at(moment, client, server)
                survived(killed(client), tmp_path / f"{number}.jsonl")
            async with life(start, server) as client:
                await _goes_on(client)
    assert model.refused == []


async def _killed_at(moment: str, client: Daemon, server: ModelServer) -> None:
    """Say much, have it compacted, and die."""
    for number in range(3):
        await client.request("session/prompt", {**COUNTER, "prompt": f"{number} {LONG}"})
    has_come = until(moment, client, server)
    asked = [
        client.ask("session/compact", COUNTER),
        client.ask("session/prompt", {**COUNTER, "prompt": f"Then {LONG}"}),
    ]
    await (server if moment == "summing up" else client).until(has_come)
    await client.kill()
    assert all(one.done() for one in asked)


async def _goes_on(client: Daemon) -> None:
    resumed = await client.request("session/resume", COUNTER)
    assert resumed["report"] == {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}
    assert (await client.request("session/compact", COUNTER))["outcome"] == "completed"
    done = await client.request("session/prompt", {**COUNTER, "prompt": "Still there?"})
    assert done["text"] == "So it is."
