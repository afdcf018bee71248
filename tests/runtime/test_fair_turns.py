"""Turns in flight are bounded, and no session keeps the others waiting for its second turn."""

from __future__ import annotations

import asyncio

from support.person import write_config
from support.sessions import Answering, Watched, ask
from treadle.runtime.outbox import Pair, StateChanged
from treadle.runtime.runtime import Runtime
from treadle.thread.message import Message
from treadle.turn.env import Env


async def test_a_session_with_many_prompts_lets_others_in_between(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    served: list[str] = []
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def model(env: Env) -> None:
        served.append(env.messages[-1].text)
        reached.set()
        await go_on.wait()
        await env.append(Message("assistant", "Fine."))

    answering(model)
    pairs = {name: Pair("assistant", name) for name in "abc"}
    watched = {name: Watched(runtime, pair) for name, pair in pairs.items()}
    many = [ask(runtime, f"a{number}", pairs["a"]) for number in range(4)]
    await reached.wait()
    others: list[asyncio.Task[object]] = []
    for name in "bc":
        others.append(ask(runtime, name, pairs[name]))  # type: ignore[arg-type]  # awaited, not read
        await watched[name].until(lambda name=name: bool(watched[name].states))
    # A turn that waits for its place is not running yet, and is counted.
    assert runtime.session(pairs["b"]).state == "idle"
    go_on.set()
    await asyncio.gather(*many, *others)

    assert served == ["a0", "b", "c", "a1", "a2", "a3"]
    await watched["b"].until(lambda: watched["b"].states[-1:] == [StateChanged("idle", 0)])
    assert watched["b"].states == [
        StateChanged("idle", 1),
        StateChanged("running", 0),
        StateChanged("idle", 0),
    ]
    queued = [state.queued for state in watched["a"].states if state.state == "running"]
    assert queued == [3, 2, 1, 0]


async def test_the_state_counts_what_waits_and_not_what_entered_a_turn(
    runtime: Runtime, answering: Answering
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def model(env: Env) -> None:
        reached.set()
        await go_on.wait()
        await env.append(Message("assistant", "Fine."))

    answering(model)
    pair = Pair("assistant", "s")
    watched = Watched(runtime, pair)
    first = ask(runtime, "first", pair)
    await reached.wait()
    tasks = [first, ask(runtime, "entering", pair, when_busy="steer"), ask(runtime, "next", pair)]
    await asyncio.sleep(0)
    assert watched.states[-1] == StateChanged("running", 1)
    go_on.set()
    await asyncio.gather(*tasks)
    assert watched.states == [
        StateChanged("running", 0),
        StateChanged("running", 1),
        StateChanged("idle", 1),
        StateChanged("running", 0),
        StateChanged("idle", 0),
    ]
