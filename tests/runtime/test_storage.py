"""What a session's watchers hear of its thread's storage, and what is on disk when they hear it."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from pathlib import Path

import pytest

from support.disk import Disk
from support.person import stored, write_config
from support.sessions import PAIR, Answering, Watched, ask
from support.waiting import until_seen
from treadle.errors import StorageDegraded
from treadle.folders import CACHE_VARIABLE
from treadle.models.scripted import Scripted
from treadle.runtime import recovery, turn_in_flight
from treadle.runtime.holding import Holding
from treadle.runtime.outbox import SessionEvent, StateChanged, TurnEnded
from treadle.runtime.runtime import Runtime
from treadle.thread import files
from treadle.thread.lock import holder
from treadle.thread.message import Message, ToolCall
from treadle.thread.replay import load
from treadle.turn.env import Env
from treadle.turn.events import ToolCallStarted, ToolResultLanded


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    """Give a disk that works until the test says otherwise."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(recovery, "FIRST_PAUSE_SECONDS", 0.01)
    return Disk(monkeypatch)


def call(name: str) -> Message:
    """Ask for a call."""
    return Message("assistant", tool_calls=[ToolCall("c1", name, {"path": "x"})])


async def test_whatever_is_told_is_on_disk_and_an_end_on_the_device(
    runtime: Runtime, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, heard, flushed = stored(*PAIR), list[tuple[str, list[str]]](), list[int]()

    async def completion(env: Env) -> None:
        await env.append(call("read") if env.iteration == 1 else Message("assistant", "Done."))

    def hear(event: SessionEvent) -> None:
        kinds = (ToolCallStarted, ToolResultLanded, TurnEnded)
        if isinstance(event.payload, kinds):
            roles = [message.role for message in load(path).messages]
            heard.append((type(event.payload).__name__, roles))
        if isinstance(event.payload, TurnEnded):
            assert flushed[-1] == path.stat().st_size

    monkeypatch.setattr(
        files, "sync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size)
    )
    answering(completion)
    runtime.session(PAIR).outbox.watch(hear)
    await ask(runtime, "a")

    assert heard == [
        ("ToolCallStarted", ["user", "assistant"]),
        ("ToolResultLanded", ["user", "assistant", "tool"]),
        ("TurnEnded", ["user", "assistant", "tool", "assistant"]),
    ]


async def test_a_disk_that_fills_up_is_told_before_what_it_does_not_keep(
    runtime: Runtime, answering: Answering, disk: Disk
) -> None:
    async def completion(env: Env) -> None:
        disk.error = errno.ENOSPC
        await env.append(call("read") if env.iteration == 1 else Message("assistant", "Done."))

    answering(completion)
    watched = Watched(runtime)
    outcome = await ask(runtime, "a")
    kinds = [
        one.payload.storage if isinstance(one.payload, StateChanged) else type(one.payload).__name__
        for one in watched.events
    ]
    assert outcome.done.text == "Done."
    assert kinds == [
        "ok",
        "degraded",
        "ToolCallStarted",
        "ToolResultLanded",
        "TurnEnded",
        "degraded",
    ]

    disk.error = None
    await watched.until(lambda: watched.states[-1] == StateChanged("idle", 0, "ok"))
    assert [message.role for message in load(stored(*PAIR)).messages] == [
        *("user", "assistant", "tool", "assistant")
    ]


async def test_an_idle_session_on_a_full_disk_is_held_until_it_is_written(
    runtime: Runtime, answering: Answering, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    evict, evictions = Holding.evict, list[Holding]()

    async def counted(held: Holding) -> None:
        await evict(held)
        evictions.append(held)

    monkeypatch.setattr(Holding, "evict", counted)
    write_config("[sessions]\nidle_seconds = 0.01\n")
    answering(Scripted(["One."]))
    watched = Watched(runtime)
    with disk.failing(errno.ENOSPC):
        await ask(runtime, "a")
        await until_seen(lambda: len(evictions) >= 2)
        assert runtime.session(PAIR).thread is not None
        assert watched.states[-1].storage == "degraded"
    await watched.until(lambda: watched.states[-1].storage == "ok")
    await until_seen(lambda: runtime.session(PAIR).thread is None)
    assert [message.text for message in load(stored(*PAIR)).messages] == ["a", "One."]


async def test_a_turn_that_is_left_behind_on_a_full_disk_loses_nothing(
    runtime: Runtime, answering: Answering, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_in_flight, "TELL_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(turn_in_flight, "LEAVE_BEHIND_SECONDS", 0.04)
    began, released = asyncio.Event(), asyncio.Event()

    async def stubborn(env: Env) -> None:
        began.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    answering(stubborn)
    disk.error, disk.only = errno.ENOSPC, stored(*PAIR).name
    running = ask(runtime, "a")
    await began.wait()
    assert await runtime.session(PAIR).cancel() == 1
    assert (await running).done.stop_reason == "cancelled"
    assert holder(stored(*PAIR)) is None
    with pytest.raises(StorageDegraded):
        await ask(runtime, "b")
    disk.error = None
    answering(Scripted(["Fine."]))
    assert (await ask(runtime, "c")).turn == 2
    released.set()

    assert [message.text for message in load(stored(*PAIR)).messages] == ["a", "c", "Fine."]


async def test_a_close_that_leaves_lines_elsewhere_fails_and_has_closed(
    runtime: Runtime, answering: Answering, disk: Disk
) -> None:
    answering(Scripted(["One."]))
    watched = Watched(runtime)
    disk.error, disk.only = errno.ENOSPC, stored(*PAIR).name
    await ask(runtime, "a")
    with pytest.raises(StorageDegraded, match="lie in"):
        await runtime.session(PAIR).close()

    assert watched.states[-1] == StateChanged("closed", 0, "degraded")
    await until_seen(lambda: runtime.find(PAIR) is None)
    assert not await runtime.session(PAIR).close()
