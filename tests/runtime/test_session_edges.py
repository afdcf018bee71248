"""What can go wrong around a turn: stubborn code, slow disks, broken opening, the end of it all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.person import stored, write_agent, write_config
from support.sessions import PAIR, Answering, Watched, ask, said
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.agents.options import SessionOptions
from treadle.errors import Busy, ConfigurationError, InternalError, ShuttingDown, TreadleError
from treadle.models.provider import Models
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.models.spec import ModelSpec
from treadle.runtime import holding, turn_in_flight
from treadle.runtime import session as session_module
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime
from treadle.thread.message import Message
from treadle.thread.replay import load
from treadle.tools.builtin import BUILTIN
from treadle.tools.tool import Tool, ToolContext
from treadle.turn.env import Env


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what resists be left behind after a moment."""
    monkeypatch.setattr(turn_in_flight, "TELL_AGAIN_SECONDS", 0.03)
    monkeypatch.setattr(turn_in_flight, "LEAVE_BEHIND_SECONDS", 0.06)


class Stubborn:
    """A completion that no cancel ends before it is released; then it says something after all."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.released = asyncio.Event()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, env: Env) -> None:
        """Say something far too late."""
        self.began.set()
        while not self.released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.released.wait()
        try:
            await env.append(Message("assistant", "Far too late"))
        except TreadleError as error:
            self.ended.set_result(type(error).__name__)
            raise
        self.ended.set_result("said it")


@pytest.fixture
async def stubborn() -> AsyncIterator[Callable[[], Stubborn]]:
    """Make stubborn completions, which are released at the end at the latest."""
    made: list[Stubborn] = []

    def make() -> Stubborn:
        made.append(Stubborn())
        return made[-1]

    yield make
    for each in made:
        each.released.set()
        await asyncio.wait({each.ended}, timeout=PATIENCE_SECONDS)


def _slow_opening(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Make opening wait for an event, the second; the first is set once it waits."""
    opening = holding.open_session
    began, go_on = threading.Event(), threading.Event()

    def open_slowly(*arguments: Any) -> Any:
        began.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return opening(*arguments)

    monkeypatch.setattr(holding, "open_session", open_slowly)
    return began, go_on


@pytest.mark.usefixtures("soon")
async def test_a_turn_that_will_not_end_is_left_behind_and_can_say_nothing_more(
    runtime: Runtime, answering: Answering, stubborn: Callable[[], Stubborn]
) -> None:
    stuck = stubborn()
    answering(stuck)
    watched = Watched(runtime)
    running = ask(runtime, "Do not stop")
    await stuck.began.wait()
    queued = ask(runtime, "Next")
    await asyncio.sleep(0)

    assert await runtime.session(PAIR).cancel() == 1
    outcome = await running
    answering(Scripted(["Here I am.", "And again."]))
    after = ask(runtime, "After")
    assert (await queued).done.text == "Here I am."
    stuck.released.set()
    assert await stuck.ended == ConfigurationError.__name__
    assert (await after).done.text == "And again."

    assert (outcome.done.stop_reason, outcome.turn) == ("cancelled", 1)
    assert [one.done.stop_reason for one in watched.done] == ["cancelled", "end_turn", "end_turn"]
    contents = [message.content for message in await said(runtime)]
    assert contents == ["Do not stop", "Next", "Here I am.", "After", "And again."]
    assert load(stored(*PAIR)).unfinished is None


@pytest.mark.usefixtures("soon")
async def test_turns_that_are_left_behind_keep_no_place_from_others(
    runtime: Runtime, answering: Answering, stubborn: Callable[[], Stubborn]
) -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    stuck = [stubborn() for _ in range(3)]
    for number, each in enumerate(stuck):
        answering(each)
        pair = Pair("assistant", f"s{number}")
        running = ask(runtime, "Do not stop", pair)
        await each.began.wait()
        assert await runtime.session(pair).close()
        assert (await running).done.stop_reason == "closed"
    answering(Scripted(["Free."]))
    assert (await ask(runtime, "Hello")).done.text == "Free."
    for each in stuck:
        each.released.set()
        assert await each.ended == ConfigurationError.__name__


async def test_a_tool_that_ignores_a_cancel_does_not_hold_its_answer(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, released = asyncio.Event(), asyncio.Event()

    async def run(arguments: Any, context: ToolContext) -> str:
        began.set()
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return "too late"

    spec = BUILTIN["read"].spec
    tool = Tool(type(spec)("stubborn", "Never stops", spec.parameters), "read", run)
    monkeypatch.setitem(BUILTIN, "stubborn", tool)  # type: ignore[arg-type]  # a dict behind it
    calls = [ScriptedCall("stubborn", id="c1"), ScriptedCall("read", {"path": "x"}, id="c2")]
    answering(Scripted([Reply(calls=calls), "Fine."]))
    running = ask(runtime, "Call it")
    await began.wait()

    start = asyncio.get_running_loop().time()
    assert await runtime.session(PAIR).cancel() == 1
    assert asyncio.get_running_loop().time() - start < turn_in_flight.STOP_SECONDS
    assert (await running).done.stop_reason == "cancelled"
    assert (await ask(runtime, "Still there?")).done.text == "Fine."
    released.set()
    messages = await said(runtime)
    answered = [message.tool_call_id for message in messages if message.role == "tool"]
    assert answered == ["c1", "c2"]
    assert "too late" not in [message.content for message in messages]


async def test_an_opening_that_fails_leaves_nothing_and_the_next_one_works(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError("the disk is on fire")

    answering(Scripted(["Fine."]))
    watched = Watched(runtime)
    with monkeypatch.context() as broken:
        broken.setattr(holding, "open_session", fail)
        with pytest.raises(InternalError):
            await ask(runtime, "Hello")
        with pytest.raises(OSError, match="on fire"):
            await runtime.session(PAIR).resume(SessionOptions())
    assert [one.done.stop_reason for one in watched.done] == ["error"]
    assert (await ask(runtime, "Hello")).done.text == "Fine."


async def test_a_cancel_during_the_opening_stops_the_prompt_and_not_the_session(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(Scripted(["Fine."]))
    began, go_on = _slow_opening(monkeypatch)
    running = ask(runtime, "Hello")
    await until_seen(began.is_set)
    cancel = asyncio.create_task(runtime.session(PAIR).cancel())
    await asyncio.sleep(0.01)
    assert not cancel.done()
    go_on.set()
    assert await cancel == 0
    outcome = await running
    assert (outcome.done.stop_reason, outcome.turn, outcome.messages) == ("cancelled", None, None)
    assert runtime.session(PAIR).state == "idle"
    assert (await ask(runtime, "Hello")).done.text == "Fine."


async def test_a_close_is_answered_although_the_opening_hangs_and_follows_it(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(Scripted(["Fine."]))
    began, go_on = _slow_opening(monkeypatch)
    running = ask(runtime, "Hello")
    await until_seen(began.is_set)
    # Only here: the session's end, which is in order, may take a while.
    with monkeypatch.context() as brief:
        brief.setattr(session_module, "CLOSE_SECONDS", 0.02)
        brief.setattr(turn_in_flight, "STOP_SECONDS", 0.02)
        assert await runtime.session(PAIR).cancel() is None
        with pytest.raises(Busy):
            await runtime.session(PAIR).close()
    after = ask(runtime, "After")
    go_on.set()
    assert (await running).done.stop_reason == "cancelled"
    assert (await after).done.text == "Fine."


async def test_a_resume_that_is_taken_back_opens_nothing(
    runtime: Runtime, answering: Answering, stubborn: Callable[[], Stubborn]
) -> None:
    stuck = stubborn()
    answering(stuck)
    running = ask(runtime, "Hello")
    await stuck.began.wait()
    close = asyncio.create_task(runtime.session(PAIR).close())
    resume = asyncio.create_task(runtime.session(PAIR).resume(SessionOptions()))
    await asyncio.sleep(0)
    resume.cancel()
    stuck.released.set()
    assert await close
    with pytest.raises(asyncio.CancelledError):
        await resume
    assert (await running).done.text == "Far too late"
    assert runtime.find(PAIR) is None


async def test_a_close_ends_a_thousand_prompts_that_wait(
    runtime: Runtime, answering: Answering
) -> None:
    answering(Scripted([Reply("One two three", delay_seconds=20)]))
    watched = Watched(runtime)
    prompts = [ask(runtime, f"p{number}") for number in range(1000)]
    await watched.until(lambda: bool(watched.states) and watched.states[-1].queued == 999)
    assert await runtime.session(PAIR).close()

    outcomes = await asyncio.gather(*prompts)
    assert [one.done.stop_reason for one in outcomes] == ["closed"] * 1000
    assert len(watched.done) == 1000
    assert [message.content for message in await said(runtime)] == ["p0"]


async def test_the_end_of_the_daemon_interrupts_whatever_is_going_on(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(Scripted([Reply("One two three", delay_seconds=20)] * 3))
    pairs = [Pair("assistant", f"p{number}") for number in range(3)]
    watched = [Watched(runtime, pair) for pair in pairs]
    prompts = [ask(runtime, "Hello", pair) for pair in pairs for _ in range(3)]
    for each in watched:
        await each.until(lambda each=each: bool(each.states) and each.states[-1].queued == 2)
    _, go_on = _slow_opening(monkeypatch)
    opening = ask(runtime, "Hello")
    await asyncio.sleep(0)
    closing = asyncio.create_task(runtime.close())
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        runtime.session(pairs[0])
    go_on.set()
    await closing

    outcomes = await asyncio.gather(*prompts, opening)
    assert [one.done.stop_reason for one in outcomes] == ["interrupted"] * 10
    assert [runtime.find(pair) for pair in pairs] == [None] * 3


async def test_models_are_closed_also_when_a_session_cannot_be(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def close_models(self: Models) -> None:
        closed.append("models")

    async def fail(cause: str) -> None:
        raise OSError("the disk is on fire")

    answering(Scripted([]))
    session = runtime.session(PAIR)
    with monkeypatch.context() as broken:
        broken.setattr(Models, "close", close_models)
        broken.setattr(session, "close", fail)
        await runtime.close()
    assert closed == ["models"]


async def test_a_model_that_changes_between_turns_is_made_anew_and_else_kept(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def completion(self: Models, spec: ModelSpec) -> Scripted:
        made.append(spec.model)
        return Scripted(["Fine."] * 9)

    monkeypatch.setattr(Models, "completion", completion)
    pair = Pair("changing", "x")
    for model in ("one", "one", "two", "one"):
        write_agent("changing", model=model)
        await ask(runtime, "Hello", pair)
    assert made == ["one", "two", "one"]


async def test_a_watcher_that_raises_keeps_nothing_from_the_others(
    runtime: Runtime, answering: Answering, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: object) -> None:
        raise ValueError("x")

    answering(Scripted(["Fine."]))
    runtime.session(PAIR).outbox.watch(fail)
    watched = Watched(runtime)
    with caplog.at_level(logging.CRITICAL, "treadle.runtime.outbox"):
        assert (await ask(runtime, "Hello")).done.text == "Fine."
    assert [event.seq for event in watched.events] == list(range(1, len(watched.events) + 1))


async def test_a_failure_that_nobody_foresaw_is_the_turn_s_end_and_not_the_session_s(
    runtime: Runtime, answering: Answering
) -> None:
    async def broken(env: Env) -> None:
        raise ZeroDivisionError

    answering(broken)
    watched = Watched(runtime)
    with pytest.raises(InternalError):
        await ask(runtime, "Hello")
    await runtime.session(PAIR).close()
    answering(Scripted(["Fine."]))
    assert (await ask(runtime, "Hello")).done.text == "Fine."
    [first] = watched.done[:1]
    assert (first.done.stop_reason, type(first.error)) == ("error", InternalError)


async def test_a_completion_that_cancels_itself_ends_its_turn_as_cancelled(
    runtime: Runtime, answering: Answering
) -> None:
    async def gives_up(env: Env) -> None:
        raise asyncio.CancelledError

    answering(gives_up)
    outcome = await ask(runtime, "Hello")
    assert (outcome.done.stop_reason, outcome.turn, outcome.messages) == ("cancelled", 1, (0, 0))


async def test_a_deleted_thread_s_turn_has_the_ordinals_of_its_new_file(
    runtime: Runtime, answering: Answering
) -> None:
    answering(Scripted(["One.", "Two.", "Three."]))
    await ask(runtime, "a")
    await ask(runtime, "b")
    _delete(stored(*PAIR))
    assert (await ask(runtime, "c")).messages == (0, 1)


def _delete(path: Path) -> None:
    path.unlink()


def test_a_loop_that_ends_in_the_middle_of_a_turn_does_not_hang(
    tmp_path: Path, answering: Callable[[Any], None]
) -> None:
    from treadle.folders import Folders

    answering(Scripted([Reply("One two three", delay_seconds=20)] * 2))

    async def main() -> None:
        folders = Folders(*map(tmp_path.joinpath, ("data", "config", "cache", "logs")))
        runtime = Runtime(folders)
        watched = Watched(runtime)
        tasks = [ask(runtime, "Hello"), ask(runtime, "Behind")]
        await watched.until(lambda: bool(watched.states) and watched.states[-1].queued == 1)
        assert not any(task.done() for task in tasks)

    asyncio.run(main())
