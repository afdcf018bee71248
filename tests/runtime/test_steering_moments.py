"""Text for a turn at every moment of its life, and prompts that are stopped by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from support.person import stored, write_config
from support.sessions import PAIR, Answering, Watched, ask, prompt
from support.waiting import PATIENCE_SECONDS
from treadle.errors import ModelUnreachable, NotRunning, UnknownAgent
from treadle.models.completion import Delta
from treadle.models.scripted import Reply, Scripted
from treadle.runtime import holding, turn_in_flight
from treadle.runtime.outbox import Pair, TurnEnded
from treadle.runtime.prompt import Outcome, Prompt, Steered
from treadle.runtime.runtime import Runtime
from treadle.thread import files
from treadle.thread.message import Message, ToolCall
from treadle.thread.replay import load
from treadle.turn.env import Env
from treadle.turn.events import StepStarted


class Gate:
    """A completion whose first call waits for `open`; then each answers `Re <what was said>`."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, env: Env) -> None:
        said = env.messages[-1].text
        if not self.reached.is_set():
            self.reached.set()
            await self.open.wait()
        env.emit("delta", Delta("text", f"Re {said}"))
        await env.append(Message("assistant", f"Re {said}"))


async def _steer(
    runtime: Runtime, text: str, expected: int | None = None, pair: Pair = PAIR
) -> Steered:
    return await runtime.session(pair).steer(prompt(text), expected)


def _kept(pair: Pair = PAIR) -> list[tuple[int, str]]:
    loaded = load(stored(*pair))
    assert loaded.unfinished is None
    return [(message.turn, message.text) for message in loaded.messages]


async def test_while_the_thread_is_opened_text_enters_the_turn_that_is_about_to_run(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on = holding.open_session, threading.Event()

    def open_slowly(*arguments: Any) -> Any:
        assert go_on.wait(PATIENCE_SECONDS)
        return opening(*arguments)

    monkeypatch.setattr(holding, "open_session", open_slowly)
    answering(Scripted(["Fine."]))
    running = ask(runtime, "a")
    await asyncio.sleep(0)
    with pytest.raises(NotRunning):
        await _steer(runtime, "no", expected=1)
    steering = asyncio.create_task(_steer(runtime, "b"))
    await asyncio.sleep(0)
    assert not steering.done()
    go_on.set()
    assert await steering == Steered(injected=True)
    assert (await running).messages == (0, 2)
    assert _kept() == [(1, "a"), (1, "b"), (1, "Fine.")]


async def test_while_it_waits_for_a_place_text_enters_it_and_others_are_served_in_order(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    gate = Gate()
    answering(gate)
    pairs = [Pair("assistant", name) for name in "xyz"]
    watched = [Watched(runtime, pair) for pair in pairs]
    first = ask(runtime, "first", pairs[0])
    await gate.reached.wait()
    others = [ask(runtime, f"p{n}", pairs[n]) for n in (1, 2)]
    for each in watched[1:]:
        await each.until(lambda each=each: [one.queued for one in each.states][-1:] == [1])
    assert await _steer(runtime, "more", pair=pairs[1]) == Steered(injected=True)
    gate.open.set()
    await asyncio.gather(first, *others)
    assert _kept(pairs[1]) == [(1, "p1"), (1, "more"), (1, "Re more")]
    for each in watched:
        assert [one.queued for one in each.states][-1] == 0
        assert len(each.done) == 1


async def test_text_while_the_end_is_flushed_begins_a_turn_of_its_own(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing, flushing, go_on = files.sync, threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        flushing.set()
        assert go_on.wait(PATIENCE_SECONDS)
        syncing(descriptor)

    answering(Scripted(["One.", "Two.", "Three."]))
    watched = Watched(runtime)
    monkeypatch.setattr(files, "sync", sync)
    running = ask(runtime, "a")
    assert await asyncio.to_thread(flushing.wait, PATIENCE_SECONDS)
    with pytest.raises(NotRunning):
        await _steer(runtime, "no", expected=1)
    steering = asyncio.create_task(_steer(runtime, "b"))
    await asyncio.sleep(0)
    entering = ask(runtime, "c", when_busy="steer")
    await asyncio.sleep(0)
    go_on.set()
    assert await steering == Steered(injected=False)
    assert (await running).done.text == "One."
    assert (await entering).turn == 3
    assert _kept() == [(1, "a"), (1, "One."), (2, "b"), (2, "Two."), (3, "c"), (3, "Three.")]
    assert [(one.turn) for one in watched.events if isinstance(one.payload, TurnEnded)] == [1, 2, 3]


async def test_text_after_a_cancel_or_a_close_begins_a_turn_and_text_before_it_is_kept(
    runtime: Runtime, answering: Answering
) -> None:
    for number, stop in enumerate(("cancel", "close")):
        pair = Pair("assistant", stop)
        gate = Gate()
        answering(gate)
        watched = Watched(runtime, pair)
        running = ask(runtime, "a", pair)
        await gate.reached.wait()
        assert await _steer(runtime, "before", pair=pair) == Steered(injected=True, turn=1)
        stopping = asyncio.create_task(getattr(runtime.session(pair), stop)())
        await asyncio.sleep(0)
        assert await _steer(runtime, "after", pair=pair) == Steered(injected=False)
        assert await stopping
        await watched.until(lambda watched=watched: len(watched.done) == 2)
        assert (await running).done.stop_reason == ("cancelled", "closed")[number]
        assert _kept(pair) == [(1, "a"), (1, "before"), (2, "after"), (2, "Re after")]


async def test_text_in_a_turn_that_never_began_goes_the_way_of_its_prompt(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    gate = Gate()
    answering(gate)
    blocking = ask(runtime, "first", Pair("assistant", "x"))
    await gate.reached.wait()
    watched = Watched(runtime)
    waiting = ask(runtime, "a")
    await watched.until(lambda: bool(watched.states))
    entered = ask(runtime, "b", when_busy="steer")
    await asyncio.sleep(0)
    assert await runtime.session(PAIR).cancel() == 0
    gate.open.set()
    await blocking
    assert [(one.done.stop_reason, one.turn) for one in (await waiting, await entered)] == [
        ("cancelled", None)
    ] * 2
    assert _kept() == []


async def test_words_for_a_turn_that_will_not_end_are_kept_when_it_is_left_behind(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_in_flight, "TELL_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(turn_in_flight, "LEAVE_BEHIND_SECONDS", 0.04)
    began, released, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(env: Env) -> None:
        if env.iteration == 1:
            calls = [ToolCall("c1", "read", {"path": "x"})]
            await env.append(Message("assistant", "Look", tool_calls=calls))
            return
        began.set()
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        # It leaves the result it has to read unread, so that its loop goes on for many steps.
        if env.iteration > 5:
            ended.set()

    answering(stubborn)
    running = ask(runtime, "a")
    await began.wait()
    assert (await _steer(runtime, "b")).injected
    assert await runtime.session(PAIR).cancel() == 1
    assert (await running).done.stop_reason == "cancelled"
    answering(Scripted(["Fine."]))
    assert (await ask(runtime, "c")).turn == 2
    released.set()
    await ended.wait()
    assert runtime.session(PAIR).state == "idle"
    assert [text for _, text in _kept() if text in ("a", "b", "c", "Fine.")] == [
        *("a", "b", "c", "Fine.")
    ]


async def test_text_for_a_stranger_or_in_vain_leaves_nothing(
    runtime: Runtime, answering: Answering
) -> None:
    with pytest.raises(NotRunning):
        await _steer(runtime, "no", expected=1)
    assert runtime.find(PAIR) is None
    nobody = Pair("nobody", "x")
    watched = Watched(runtime, nobody)
    with pytest.raises(UnknownAgent):
        await _steer(runtime, "b", pair=nobody)
    await watched.until(lambda: bool(watched.done))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert runtime.find(nobody) is None


async def test_a_prompt_hears_its_turn_from_when_it_has_one(
    runtime: Runtime, answering: Answering
) -> None:
    heard: dict[str, list[Any]] = {"first": [], "entering": [], "behind": []}
    gate = Gate()
    answering(gate)
    running = ask(runtime, "first", on_event=heard["first"].append)
    await gate.reached.wait()
    entering = ask(runtime, "entering", when_busy="steer", on_event=heard["entering"].append)
    behind = ask(runtime, "behind", on_event=heard["behind"].append)
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(running, entering)
    done = (await running).done
    await behind

    told = [
        StepStarted(1),
        Delta("text", "Re first"),
        StepStarted(2),
        Delta("text", "Re entering"),
        TurnEnded(done, None),
    ]
    assert heard["first"] == told
    assert heard["entering"] == told[1:]
    assert [type(one) for one in heard["behind"]] == [StepStarted, Delta, TurnEnded]


async def test_a_listener_that_raises_harms_nobody(
    runtime: Runtime, answering: Answering, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ValueError("not my day")

    answering(Scripted(["Fine."]))
    with caplog.at_level("CRITICAL", "treadle.runtime.askers"):
        assert (await ask(runtime, "a", on_event=fail)).done.text == "Fine."


def _asked(runtime: Runtime, said: Prompt) -> asyncio.Task[Outcome]:
    return asyncio.create_task(runtime.session(PAIR).prompt(said))


async def test_a_prompt_is_stopped_by_itself_whether_it_runs_or_waits(
    runtime: Runtime, answering: Answering
) -> None:
    gate = Gate()
    answering(gate)
    watched = Watched(runtime)
    prompts = [prompt(text) for text in ("runs", "waits", "last")]
    tasks = [_asked(runtime, each) for each in prompts]
    await gate.reached.wait()
    session = runtime.session(PAIR)
    assert await session.stop_prompt(prompts[1])
    waited = await tasks[1]
    assert [one.queued for one in watched.states][-1] == 1
    assert await session.stop_prompt(prompts[0])
    assert not await session.stop_prompt(prompts[0])
    assert not await session.stop_prompt(prompt("runs"))
    stranger = Pair("assistant", "stranger")
    assert not await runtime.session(stranger).stop_prompt(prompt("runs"))
    assert runtime.find(stranger) is None
    outcomes = [await tasks[0], waited, await tasks[2]]

    assert [(one.done.stop_reason, one.turn) for one in outcomes] == [
        ("cancelled", 1),
        ("cancelled", None),
        ("end_turn", 2),
    ]
    assert _kept() == [(1, "runs"), (2, "last"), (2, "Re last")]
    assert len(watched.done) == 2


async def test_stopping_a_prompt_that_entered_a_turn_stops_that_turn(
    runtime: Runtime, answering: Answering
) -> None:
    gate = Gate()
    answering(gate)
    running = ask(runtime, "a")
    await gate.reached.wait()
    entering = prompt("b", when_busy="steer")
    task = _asked(runtime, entering)
    await asyncio.sleep(0)
    assert await runtime.session(PAIR).stop_prompt(entering)
    assert await task == await running
    assert (await task).done.stop_reason == "cancelled"


async def test_an_error_of_the_turn_is_that_of_every_prompt_in_it(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[models]\nmax_retries = 0\n")
    answering(Scripted([Reply("One", error=ModelUnreachable("gone"), delay_seconds=0.01), "Two."]))
    running = ask(runtime, "a")
    entering = ask(runtime, "b", when_busy="steer")
    with pytest.raises(ModelUnreachable):
        await running
    with pytest.raises(ModelUnreachable):
        await entering
    assert (await ask(runtime, "c")).done.text == "Two."
