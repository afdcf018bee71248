"""The same prompt under the same key runs once, whatever becomes of those who ask."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.person import stored, write_agent, write_config
from support.sessions import PAIR, Answering, Held, Watched, ask, prompt, said
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.agents.options import SessionOptions
from treadle.errors import Busy, InvalidParams, ModelUnreachable, OptionsDiffer, UnknownAgent
from treadle.models.completion import Delta
from treadle.models.scripted import Reply, Scripted
from treadle.runtime import keys as keys_module
from treadle.runtime.keys import digest_of, told_before
from treadle.runtime.outbox import Pair, TurnEnded
from treadle.runtime.prompt import Outcome, Prompt
from treadle.runtime.runtime import Runtime
from treadle.thread import outcomes
from treadle.thread.message import Message
from treadle.thread.replay import load
from treadle.thread.thread import Thread
from treadle.turn.events import StepStarted


def _once(runtime: Runtime, text: str = "a", **fields: Any) -> asyncio.Task[Outcome]:
    return ask(runtime, text, key="k", **fields)


def _has_entered() -> bool:
    return b'{"steered"' in stored(*PAIR).read_bytes()


async def _taken_back(task: asyncio.Task[Outcome]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_repeat_gets_the_first_ones_outcome_while_it_runs_and_afterwards(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    watched = Watched(runtime)
    first = _once(runtime)
    await model.reached.wait()
    second = _once(runtime, when_busy="reject")
    await asyncio.sleep(0)
    assert [one.queued for one in watched.states][-1] == 0
    heard: list[object] = []
    third = _once(runtime, on_event=heard.append)
    await asyncio.sleep(0)
    model.open.set()
    outcome = await first
    assert [await second, await third] == [outcome] * 2
    assert heard == [Delta("text", "Answer 1"), TurnEnded(outcome.done, None)]
    assert await _once(runtime, on_event=heard.append) == outcome
    assert heard[2:] == heard[:2]
    assert await runtime.session(PAIR).close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert runtime.find(PAIR) is None
    assert await _once(runtime, on_event=heard.append) == outcome
    assert heard[4:] == heard[:2]
    assert (model.calls, len(watched.done)) == (1, 1)


async def test_a_repeat_after_a_restart_gets_the_first_ones_outcome(
    runtime: Runtime, answering: Answering
) -> None:
    answering(Scripted(["One.", "Two."]))
    outcome = await _once(runtime)
    await runtime.close()
    answering(Scripted(["Never."]))
    later = Runtime(runtime.services.folders)
    watched = Watched(later)
    assert await _once(later) == outcome
    with pytest.raises(InvalidParams) as used:
        await _once(later, "b")
    assert used.value.data == {"path": "key"}
    assert watched.done == []
    await later.close()
    assert [one.text for one in load(stored(*PAIR)).messages] == ["a", "One."]


async def test_a_turn_that_a_kill_ended_is_interrupted_and_not_run_again(
    runtime: Runtime, answering: Answering
) -> None:
    thread = Thread.open(stored(*PAIR), agent=PAIR.agent, instance=PAIR.instance)
    thread.start_turn("k", digest_of(prompt("a", key="k")))
    await thread.append(Message("user", "a"))
    thread.accept(Message("user", "more"), "k2", digest_of(prompt("more", key="k2")))
    thread.close()
    answering(Scripted(["Next."]))
    for text, key in (("a", "k"), ("more", "k2")):
        outcome = await ask(runtime, text, key=key)
        assert (outcome.done.stop_reason, outcome.turn, outcome.messages) == (
            "interrupted", 1, (0, 1),
        )  # fmt: skip
    assert (await ask(runtime, "b", key="k3")).turn == 2
    assert [one.text for one in load(stored(*PAIR)).messages] == ["a", "more", "b", "Next."]


async def test_a_repeat_of_what_has_ended_waits_for_no_turn_and_is_never_busy(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    model.open.set()
    answering(model)
    outcome = await _once(runtime)
    await runtime.session(PAIR).close()
    model.open.clear()
    model.reached.clear()
    running = ask(runtime, "x")
    await model.reached.wait()
    for when_busy in ("reject", "steer", "queue"):
        assert await _once(runtime, when_busy=when_busy) == outcome
        with pytest.raises(InvalidParams):
            await _once(runtime, "b", when_busy=when_busy)
    with pytest.raises(Busy):
        await ask(runtime, "y", key="new", when_busy="reject")
    model.open.set()
    await running
    assert [one.text for one in await said(runtime)] == ["a", "Answer 1", "x", "Answer 2"]


async def test_a_session_is_one_while_a_key_is_looked_up(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        looking.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return told_before(*arguments)

    model = Held()
    answering(model)
    running = ask(runtime, "x")
    await model.reached.wait()
    session = runtime.session(PAIR)
    monkeypatch.setattr(keys_module, "told_before", slowly)
    asked = _once(runtime, when_busy="reject")
    await asyncio.to_thread(looking.wait, PATIENCE_SECONDS)
    model.open.set()
    await running
    assert await session.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert runtime.session(PAIR) is session
    go_on.set()
    assert (await asked).turn == 2


async def test_a_prompt_that_enters_a_turn_keeps_its_key_after_a_restart(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    running = ask(runtime, "x", key="k1")
    await model.reached.wait()
    entering = _once(runtime, when_busy="steer")
    await until_seen(_has_entered)
    model.open.set()
    outcome = await running
    assert await entering == outcome
    await runtime.close()
    later = Runtime(runtime.services.folders)
    assert [await ask(later, "x", key="k1"), await _once(later)] == [outcome] * 2
    await later.close()
    assert model.calls == 2


async def test_a_new_key_reads_no_file_once_the_thread_was_looked_through(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[Path] = []
    find = outcomes.find_keys

    def counted(path: Path, size_bytes: int) -> Any:
        searches.append(path)
        return find(path, size_bytes)

    answering(Scripted([f"Answer {number}" for number in range(9)]))
    monkeypatch.setattr(outcomes, "find_keys", counted)
    for key in "abc":
        await ask(runtime, "a", key=key)
    assert [(await ask(runtime, "a", key=key)).done.text for key in "bca"] == [
        "Answer 1", "Answer 2", "Answer 0",
    ]  # fmt: skip
    assert len(searches) == 1


async def test_another_prompt_under_a_key_is_refused_and_another_pair_has_its_own(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    first = _once(runtime)
    await model.reached.wait()
    with pytest.raises(InvalidParams) as running:
        await _once(runtime, "b")
    model.open.set()
    await first
    await runtime.session(PAIR).close()
    with pytest.raises(InvalidParams) as used:
        await _once(runtime, "b")
    assert running.value.data == used.value.data == {"path": "key"}
    assert (await _once(runtime, "b", pair=Pair("assistant", "other"))).done.text == "Answer 2"


async def test_cancelling_the_repeat_lets_the_first_go_on(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    first = _once(runtime)
    await model.reached.wait()
    second, third = _once(runtime), _once(runtime)
    await asyncio.sleep(0)
    await _taken_back(second)
    model.open.set()
    assert (await first).done.text == "Answer 1"
    assert await third == await first


async def test_cancelling_the_first_once_its_turn_has_begun_is_the_outcome_of_both(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    first = _once(runtime)
    await model.reached.wait()
    second = _once(runtime)
    await asyncio.sleep(0)
    await _taken_back(first)
    outcome = await second
    assert (outcome.done.stop_reason, outcome.turn) == ("cancelled", 1)
    # The error is what the turn's own task was ended by.
    assert await _once(runtime) == replace(outcome, done=replace(outcome.done, error=None))
    assert model.calls == 1


async def test_cancelling_the_first_before_its_turn_leaves_the_turn_to_the_repeat(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    blocking = ask(runtime, "first")
    await model.reached.wait()
    heard: list[object] = []
    first, second = _once(runtime), _once(runtime, on_event=heard.append)
    await asyncio.sleep(0)
    await _taken_back(first)
    model.open.set()
    await blocking
    outcome = await second
    assert (outcome.done.stop_reason, outcome.turn) == ("end_turn", 2)
    assert await _once(runtime) == outcome
    assert heard == [StepStarted(1), TurnEnded(outcome.done, None)]


async def test_when_nobody_who_asked_is_left_nothing_runs(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    blocking = ask(runtime, "first")
    await model.reached.wait()
    first, second = _once(runtime), _once(runtime)
    await asyncio.sleep(0)
    await _taken_back(first)
    await _taken_back(second)
    model.open.set()
    await blocking
    assert (await ask(runtime, "after")).turn == 2
    assert model.calls == 2


async def test_a_prompt_that_ended_before_its_turn_began_uses_no_key_up(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    blocking = ask(runtime, "first")
    await model.reached.wait()
    first = _once(runtime)
    await asyncio.sleep(0)
    await _taken_back(first)
    again, repeat = _once(runtime), _once(runtime)
    await asyncio.sleep(0)
    assert await runtime.session(PAIR).close()
    assert [(one.done.stop_reason, one.turn) for one in (await again, await repeat)] == [
        ("closed", None)
    ] * 2
    assert (await blocking).done.stop_reason == "closed"
    model.open.set()
    assert (await _once(runtime)).turn == 2


async def test_errors_use_no_key_up_and_are_those_of_everyone_who_waited(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[models]\nmax_retries = 0\n")
    failing = Reply(error=ModelUnreachable("gone"), delay_seconds=0.01)
    answering(Scripted([failing, "Busy.", "Fine."]))
    both = [_once(runtime), _once(runtime)]
    for task in both:
        with pytest.raises(ModelUnreachable):
            await task
    busy = ask(runtime, "x")
    with pytest.raises(Busy):
        await _once(runtime, when_busy="reject")
    await busy
    with pytest.raises(OptionsDiffer):
        await _once(runtime, options=SessionOptions(max_turns=3))
    assert (await _once(runtime)).done.text == "Fine."


async def test_a_pair_that_could_not_be_opened_is_tried_anew(
    runtime: Runtime, answering: Answering
) -> None:
    answering(Scripted(["Here."]))
    pair = Pair("later", "x")
    with pytest.raises(UnknownAgent):
        await _once(runtime, pair=pair)
    write_agent("later")
    assert (await _once(runtime, pair=pair)).done.text == "Here."


async def test_a_prompt_that_enters_a_turn_keeps_its_key_for_that_turn(
    runtime: Runtime, answering: Answering
) -> None:
    model = Held()
    answering(model)
    running = ask(runtime, "x")
    await model.reached.wait()
    entering, repeat = (_once(runtime, when_busy="steer") for _ in range(2))
    await until_seen(_has_entered)
    model.open.set()
    outcome = await running
    assert [await entering, await repeat, await _once(runtime)] == [outcome] * 3
    texts = [message.text for message in await said(runtime)]
    assert texts == ["x", "Answer 1", "a", "Answer 2"]


async def test_a_repeat_that_is_looked_up_while_the_first_enters_a_turn_waits_for_that_turn(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = outcomes.find_keys
    both, entered, told = threading.Barrier(2), threading.Event(), threading.Event()

    def slow(path: Path, size_bytes: int) -> Any:
        if both.wait(PATIENCE_SECONDS) == 0:
            entered.wait(PATIENCE_SECONDS)
        return find(path, size_bytes)

    def seen(prompt: Prompt, thread: Thread) -> Outcome | None:
        try:
            return told_before(prompt, thread)
        finally:
            if entered.is_set():
                told.set()

    monkeypatch.setattr(outcomes, "find_keys", slow)
    monkeypatch.setattr(keys_module, "told_before", seen)
    model = Held()
    answering(model)
    running = ask(runtime, "x")
    await model.reached.wait()
    asked = [_once(runtime, when_busy="steer") for _ in range(2)]
    await until_seen(_has_entered)
    entered.set()
    assert await asyncio.to_thread(told.wait, PATIENCE_SECONDS)
    model.open.set()
    outcome = await running
    assert [await each for each in asked] == [outcome] * 2
