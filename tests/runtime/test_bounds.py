"""What the daemon refuses when too much waits, whom it lets go, and what it never refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from support.person import write_config
from support.sessions import Answering, Held, Watched, ask, prompt, said
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.agents.options import SessionOptions
from treadle.errors import Overloaded
from treadle.models.scripted import Scripted
from treadle.process import memory
from treadle.runtime import admission
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime


def pairs(count: int) -> list[Pair]:
    return [Pair("assistant", f"s{number}") for number in range(count)]


async def bounded(runtime: Runtime, text: str) -> None:
    """Write the bounds, and have them read."""
    write_config(f"[sessions]\n{text}")
    await runtime.services.turn_slots()


def answer_at_once(answering: Answering) -> None:
    answering(Scripted(["Fine."] * 10_000))


async def test_a_session_with_too_many_prompts_refuses_one_more_and_goes_on(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "queued_prompts = 3")
    model = Held()
    answering(model)
    waiting = [ask(runtime, str(number)) for number in range(4)]
    await model.reached.wait()
    with pytest.raises(Overloaded, match="4 prompts wait in this session") as refused:
        await ask(runtime, "one more")
    assert 1 <= refused.value.data["retry_after_seconds"] <= 60
    # Another session is none of that one's business, and what ends work is never refused.
    other = ask(runtime, "other", Pair("assistant", "other"))
    model.open.set()
    outcomes = await asyncio.gather(*waiting, other)
    assert [one.done.stop_reason for one in outcomes] == ["end_turn"] * 5
    assert (await ask(runtime, "again")).text == "Answer 6"
    assert runtime.services.admission.prompts == 0


async def test_all_sessions_together_have_a_bound_too(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "queued_prompts_overall = 3\nturns_in_flight = 1")
    model = Held()
    answering(model)
    waiting = [ask(runtime, "x", pair) for pair in pairs(3)]
    await model.reached.wait()
    with pytest.raises(Overloaded, match="3 prompts wait in all sessions"):
        await ask(runtime, "x", Pair("assistant", "late"))
    assert model.calls == 1
    # One that is taken back makes room at once.
    assert await runtime.session(pairs(3)[0]).cancel() is not None
    late = ask(runtime, "x", Pair("assistant", "late"))
    model.open.set()
    await asyncio.gather(*waiting, late)
    assert runtime.services.admission.prompts == 0


async def test_what_waits_may_hold_so_much_and_a_single_large_one_is_taken(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "queued_megabytes = 1")
    model = Held()
    answering(model)
    large = "x" * (2 << 20)
    first = ask(runtime, large)
    await model.reached.wait()
    with pytest.raises(Overloaded, match="the prompts that wait hold 2 MiB"):
        await ask(runtime, "small", Pair("assistant", "other"))
    model.open.set()
    await first
    assert (await ask(runtime, "small", Pair("assistant", "other"))).text == "Answer 2"


async def test_a_prompt_that_is_refused_or_cancelled_leaves_no_weight(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "queued_prompts = 1")
    model = Held()
    answering(model)
    running, queued = ask(runtime, "a"), ask(runtime, "b")
    await model.reached.wait()
    for _ in range(3):
        with pytest.raises(Overloaded):
            await ask(runtime, "c")
    queued.cancel()
    await asyncio.wait({queued})
    model.open.set()
    await running
    await runtime.session(Pair("assistant", "test")).close()
    assert runtime.services.admission.prompts == 0


async def test_the_sessions_that_rest_longest_are_let_go_and_nothing_of_them_is_lost(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "held_sessions = 2")
    answer_at_once(answering)
    for pair in pairs(5):
        await ask(runtime, "Hello", pair)
    await until_seen(lambda: runtime.census().held == 2)
    held = [pair for pair in pairs(5) if runtime.session(pair).thread is not None]
    assert held == pairs(5)[3:]
    assert runtime.census().open == 5
    watched = Watched(runtime, pairs(5)[0])
    await ask(runtime, "Again", pairs(5)[0])
    assert [one.content for one in await said(runtime, pairs(5)[0])] == [
        "Hello",
        "Fine.",
        "Again",
        "Fine.",
    ]
    # The numbers of its events go on where they were.
    assert watched.events[0].seq > 1


async def test_a_session_at_work_is_never_let_go(runtime: Runtime, answering: Answering) -> None:
    await bounded(runtime, "held_sessions = 1")
    model = Held()
    answering(model)
    working = ask(runtime, "a", pairs(1)[0])
    await model.reached.wait()
    for pair in pairs(4)[1:]:
        await runtime.session(pair).resume(SessionOptions())
    await until_seen(lambda: runtime.census().held == 2)
    assert runtime.session(pairs(1)[0]).thread is not None
    model.open.set()
    assert (await working).text == "Answer 1"


async def test_too_many_open_sessions_are_refused_until_one_is_closed(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "open_sessions = 3")
    answer_at_once(answering)
    for pair in pairs(3):
        await ask(runtime, "Hello", pair)
    with pytest.raises(Overloaded, match="3 sessions are open; close some of them"):
        runtime.session(Pair("assistant", "late"))
    await runtime.session(pairs(1)[0]).close()
    assert (await ask(runtime, "Hello", Pair("assistant", "late"))).text == "Fine."


async def test_above_the_memory_ceiling_idle_sessions_go_first_and_then_prompts_are_refused(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bounded(runtime, "memory_megabytes = 1000")
    size = resident(monkeypatch)
    answer_at_once(answering)
    for pair in pairs(4):
        await ask(runtime, "Hello", pair)
    assert runtime.census().held == 4
    model = Held()
    answering(model)
    working = ask(runtime, "work", Pair("assistant", "working"))
    await model.reached.wait()
    size(2000)
    with pytest.raises(Overloaded, match="holds more than 1000 MiB"):
        await ask(runtime, "x", Pair("assistant", "late"))
    await until_seen(lambda: runtime.census().held == 3)
    # What ends work, or only looks, is never refused.
    assert len((await runtime.summaries())[0]) == 5
    assert await runtime.session(Pair("assistant", "working")).cancel() is not None
    await asyncio.wait({working})
    # With nothing at work there is nothing to wait for: the next prompt is taken.
    answer_at_once(answering)
    assert (await ask(runtime, "x", Pair("assistant", "late"))).text == "Fine."


def resident(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the process seem to take so many MiB, looked at each time."""
    now = [memory.resident_bytes()]
    monkeypatch.setattr(admission, "resident_bytes", lambda: now[0])
    monkeypatch.setattr(admission, "LOOK_SECONDS", -1)

    def seem(megabytes: int) -> None:
        now[0] = megabytes << 20

    seem(100)
    return seem


async def test_one_session_s_thousand_prompts_do_not_come_before_another_s_first(
    runtime: Runtime, answering: Answering
) -> None:
    await bounded(runtime, "turns_in_flight = 1")
    answer_at_once(answering)
    ended: list[str] = []

    async def one(pair: Pair, text: str) -> None:
        await runtime.session(pair).prompt(prompt(text))
        ended.append(pair.instance)

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(one(Pair("assistant", "greedy"), str(number)))
        await asyncio.sleep(0)
        group.create_task(one(Pair("assistant", "modest"), "x"))
    # Each waits for one turn at a time, in order: the modest one is among the first.
    assert ended.index("modest") < 10


async def test_numbers_are_never_used_twice_however_many_sessions_there_were(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.runtime import runtime as module

    monkeypatch.setattr(module, "REMEMBERED_SESSIONS", 2)
    answer_at_once(answering)
    last: dict[Pair, int] = {}
    for pair in [*pairs(6), *pairs(6)]:
        watched = Watched(runtime, pair)
        await ask(runtime, "Hello", pair)
        await runtime.session(pair).close()
        assert watched.events[0].seq > last.get(pair, 0)
        last[pair] = watched.events[-1].seq
        runtime.outbox(pair).unwatch(watched.take)
        runtime.unwatched(pair)
