"""SessionLog: a second start on a path sees the first, whatever became of it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from support.disk import Disk
from support.turns import (
    Thinking,
    call,
    cancelled,
    look,
    roles_and_texts,
    say,
    turn_records,
)
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.errors import (
    ConfigurationError,
    ModelStreamBroken,
    ModelUnreachable,
    StorageDegraded,
    ThreadLocked,
    ThreadUnreadable,
)
from treadle.folders import CACHE_VARIABLE
from treadle.models.scripted import Reply, Scripted
from treadle.thread.journal import Journal
from treadle.thread.loaded import LoadReport
from treadle.thread.lock import holder
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.replay import load
from treadle.thread.thread import Thread
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import EVENT_NAMES, ToolResultLanded, TurnDone
from treadle.turn.loop import ToolResultLoop
from treadle.turn.session_log import SessionLog
from treadle.turn.tools import Tools


async def test_an_agent_made_anew_on_the_same_path_remembers(tmp_path: Path) -> None:
    path, model = tmp_path / "chat.jsonl", Scripted(["Hello Mac.", "Mac."])

    await Agent().use(SessionLog, path=str(path)).run(model).start("My name is Mac.")
    await Agent().use(SessionLog, path=path).run(model).start("What is my name?")

    assert roles_and_texts(list(model.requests[1].messages)) == [
        ("user", "My name is Mac."),
        ("assistant", "Hello Mac."),
        ("user", "What is my name?"),
    ]


async def test_two_paths_are_two_conversations(tmp_path: Path) -> None:
    await Agent().use(SessionLog, path=tmp_path / "a.jsonl").run(say("one")).start("a")

    env = await Agent().use(SessionLog, path=tmp_path / "b.jsonl").run(say("two")).start("b")

    assert roles_and_texts(env.messages) == [("user", "b"), ("assistant", "two")]
    assert roles_and_texts(load(tmp_path / "a.jsonl").messages) == [
        ("user", "a"),
        ("assistant", "one"),
    ]


async def test_deleting_the_file_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    agent = Agent().use(SessionLog, path=path).run(say("ok"))
    await agent.start("a")
    path.unlink()

    env = await agent.start("b")

    assert roles_and_texts(env.messages) == [("user", "b"), ("assistant", "ok")]
    assert load(path).messages == env.messages
    assert env.metadata["turn"] == 1


async def test_a_turn_is_kept_with_its_tools_and_its_end(tmp_path: Path) -> None:
    path, usage = tmp_path / "chat.jsonl", Usage(12, 3)
    model = Scripted([Reply("A desk.", usage=usage)])

    async def completion(env: Env) -> None:
        if env.messages[-1].role == "user":
            called = ToolCall("1", "look", {"deep": {"a": [1, None]}})
            await env.append(Message("assistant", tool_calls=[called], usage=usage))
        else:
            await model(env)

    agent = Agent().use(SessionLog, path=path).use(ToolResultLoop).use(Tools, tools=[look])
    env = await agent.run(completion).start("what?")

    loaded = load(path)
    assert loaded.messages == env.messages
    assert [message.turn for message in loaded.messages] == [1] * 4
    start, end = turn_records(path)
    assert (start.number, start.event) == (1, "start")
    assert (end.number, end.event) == (1, "end")
    assert (end.stop_reason, end.usage, end.steps) == ("end_turn", usage + usage, 2)


async def test_a_cancelled_turn_keeps_what_was_said_and_closes_its_record(tmp_path: Path) -> None:
    path, model = tmp_path / "chat.jsonl", Scripted(["one two three", "ok"])
    agent = Agent().use(SessionLog, path=path).run(model)
    turn: asyncio.Task[Env] | None = None

    def stop_at_two(env: Env, delta: Any) -> None:
        if delta.text == " two" and turn is not None:
            turn.cancel()

    agent.on("delta", stop_at_two)
    turn = asyncio.create_task(agent.start("count"))
    with pytest.raises(asyncio.CancelledError):
        await turn

    said = load(path).messages[-1]
    assert (said.role, said.text, said.partial) == ("assistant", "one two", True)
    assert [record.stop_reason for record in turn_records(path)] == [None, "cancelled"]

    # The next turn is told what had been said.
    await agent.start("go on")
    assert roles_and_texts(list(model.requests[1].messages)) == [
        ("user", "count"),
        ("assistant", "one two"),
        ("user", "go on"),
    ]


async def test_a_turn_that_is_cancelled_again_while_it_ends_still_closes_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, thinking, flushing = tmp_path / "chat.jsonl", Thinking(), Thinking()
    monkeypatch.setattr(Journal, "flush", flushing)

    turn = asyncio.create_task(Agent().use(SessionLog, path=path).run(thinking).start("hi"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await thinking.begun.wait()
        turn.cancel()
        await flushing.begun.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert [record.stop_reason for record in turn_records(path)] == [None, "cancelled"]
    Thread.open(path).close()


async def test_a_cancel_after_the_end_was_recorded_comes_too_late_to_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flushing, ends = tmp_path / "chat.jsonl", Thinking(), list[TurnDone]()
    monkeypatch.setattr(Journal, "flush", flushing)
    agent = Agent().use(SessionLog, path=path).run(say("done"))
    agent.on("done", lambda _, done: ends.append(done))

    await cancelled(agent.start("hi"), once=flushing.begun)

    assert [record.stop_reason for record in turn_records(path)] == [None, "end_turn"]
    assert ends == [TurnDone("end_turn", "done", Usage(), steps=1)]


async def test_a_failing_turn_is_recorded_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path, ends = tmp_path / "chat.jsonl", list[TurnDone]()
    broken = ModelStreamBroken("cut", partial="half")
    model = Scripted([Reply("half", error=broken), Reply(error=ModelUnreachable("no")), "ok"])
    agent = Agent().use(SessionLog, path=path).run(model)
    agent.on("done", lambda _, done: ends.append(done))

    with pytest.raises(ModelStreamBroken):
        await agent.start("a")
    with pytest.raises(ModelUnreachable):
        await agent.start("b")
    await agent.start("c")

    assert [(m.role, m.text, m.partial) for m in load(path).messages] == [
        ("user", "a", False),
        ("assistant", "half", True),
        ("user", "b", False),
        ("user", "c", False),
        ("assistant", "ok", False),
    ]
    reasons = [r.stop_reason for r in turn_records(path) if r.event == "end"]
    assert reasons == ["error", "error", "end_turn"] == [done.stop_reason for done in ends]
    assert ends[0] == TurnDone("error", "half", Usage(), steps=1, error=broken)


async def test_a_layer_that_fails_in_an_unforeseen_way_is_recorded_too(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def fail(env: Env) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Agent().use(SessionLog, path=path).run(fail).start("hi")

    assert turn_records(path)[-1].stop_reason == "error"
    Thread.open(path).close()


async def test_whatever_an_event_tells_of_is_on_disk_already(tmp_path: Path) -> None:
    path, seen = tmp_path / "chat.jsonl", list[tuple[str, list[str]]]()
    agent = Agent().use(SessionLog, path=path).use(ToolResultLoop).use(Tools, tools=[look])

    async def completion(env: Env) -> None:
        if env.messages[-1].role == "user":
            await call(ToolCall("1", "look"))(env)
        else:
            await Scripted(["A desk."])(env)

    def read_file(name: str, payload: object) -> None:
        on_disk = load(path).messages
        if isinstance(payload, ToolResultLanded):
            assert on_disk[-1] == payload.message
        if not seen or seen[-1][0] != name:
            seen.append((name, [message.role for message in on_disk]))

    for name in EVENT_NAMES:
        agent.on(name, lambda _, payload, name=name: read_file(name, payload))
    await agent.run(completion).start("what?")

    assert seen == [
        ("turn", []),
        ("step", ["user"]),
        ("tool_call", ["user", "assistant"]),
        ("tool_result", ["user", "assistant", "tool"]),
        ("step", ["user", "assistant", "tool"]),
        ("model_call", ["user", "assistant", "tool"]),
        ("delta", ["user", "assistant", "tool"]),
        ("done", ["user", "assistant", "tool", "assistant"]),
    ]
    assert turn_records(path)[-1].event == "end"


async def test_a_turn_cancelled_while_its_thread_is_opened_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opening, go_on = tmp_path / "chat.jsonl", threading.Event(), threading.Event()
    really_open = Thread.open

    def open_slowly(path: Path) -> Thread:
        opening.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return really_open(path)

    monkeypatch.setattr(Thread, "open", open_slowly)
    turn = asyncio.create_task(Agent().use(SessionLog, path=path).run(say("ok")).start("hi"))
    assert await asyncio.to_thread(opening.wait, PATIENCE_SECONDS)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    go_on.set()

    await until_seen(lambda: path.exists() and holder(path) is None)


@pytest.mark.parametrize("both", [True, False])
async def test_a_path_and_a_thread_exclude_each_other_and_one_is_needed(
    tmp_path: Path, both: bool
) -> None:
    options = {"path": tmp_path / "a.jsonl", "thread": Thread.in_memory()} if both else {}

    with pytest.raises(ConfigurationError, match="either a path or a thread"):
        await Agent().use(SessionLog, **options).run(say("ok")).start("hi")

    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - nothing else runs here


async def test_two_turns_on_one_path_at_once_are_refused_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    path, go_on, begun = tmp_path / "chat.jsonl", asyncio.Event(), asyncio.Event()

    async def wait(env: Env) -> None:
        begun.set()
        await go_on.wait()
        await env.append(Message("assistant", "first"))

    second = Agent().use(SessionLog, path=path).run(say("second"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        turn = asyncio.create_task(Agent().use(SessionLog, path=path).run(wait).start("a"))
        await begun.wait()
        with pytest.raises(ThreadLocked) as refused:
            await second.start("b")
        go_on.set()
        await turn
        env = await second.start("c")

    assert refused.value.data == {"pid": os.getpid()}
    assert [message.text for message in env.messages] == ["a", "first", "c", "second"]


async def test_a_path_that_cannot_be_a_thread_is_a_typed_error(tmp_path: Path) -> None:
    ends: list[TurnDone] = []
    agent = Agent().use(SessionLog, path=tmp_path).run(say("ok"))

    with pytest.raises(ThreadUnreadable):
        await agent.on("done", lambda _, done: ends.append(done)).start("hi")

    assert [done.stop_reason for done in ends] == ["error"]


async def test_a_turn_on_a_disk_that_stays_full_ends_in_an_error_that_tells_where_its_words_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ends = tmp_path / "chat.jsonl", list[TurnDone]()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    disk = Disk(monkeypatch)

    async def fill_disk(env: Env) -> None:
        disk.error, disk.only = errno.ENOSPC, "chat.jsonl"
        await env.append(Message("assistant", "kept"))

    agent = Agent().use(SessionLog, path=path).run(fill_disk)
    with pytest.raises(StorageDegraded) as told:
        await agent.on("done", lambda _, done: ends.append(done)).start("hi")

    assert [(done.stop_reason, done.text) for done in ends] == [("error", "kept")]
    assert Path(told.value.data["path"]).parent == tmp_path / "cache" / "unsaved"
    disk.error = None
    thread = Thread.open(path)
    assert roles_and_texts(thread.messages) == [("user", "hi"), ("assistant", "kept")]
    assert thread.report == LoadReport()
    thread.close()


async def test_a_thread_in_memory_remembers_as_long_as_it_lives() -> None:
    agent = Agent().use(SessionLog, thread=Thread.in_memory()).run(say("ok"))

    await agent.start("a")
    env = await agent.start("b")

    assert [message.text for message in env.messages] == ["a", "ok", "b", "ok"]
