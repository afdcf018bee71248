"""Threads expire while sessions go on: each lives with its history or begins afresh, never half."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.person import write_config
from support.sessions import PAIR, Answering, ask
from support.turns import say
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.agents.options import SessionOptions
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE, Folders
from treadle.runtime import expiry
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime
from treadle.thread import retention, whole
from treadle.thread.paths import beside, thread_path

YEAR_SECONDS = 365 * 86_400


def write(pair: Pair = PAIR, age_seconds: float = YEAR_SECONDS) -> Path:
    """Write a pair's thread of two messages that was used so long ago."""
    path = thread_path(Path(os.environ[DATA_VARIABLE]), *pair)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        {"thread": {"version": 1, "agent": pair.agent, "instance": pair.instance}},
        {"role": "user", "content": "My name is Mac.", "turn": 1},
        {"role": "assistant", "content": "Hello, Mac.", "turn": 1},
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    at = time.time() - age_seconds
    os.utime(path, (at, at))
    return path


@pytest.fixture
async def expiring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Callable[[], Runtime]]:
    """Give what begins a runtime in which threads expire at once."""
    monkeypatch.setattr(expiry, "FIRST_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "treadle.runtime.expiry")
    begun: list[Runtime] = []

    def begin() -> Runtime:
        folders = Folders(
            Path(os.environ[DATA_VARIABLE]), Path(os.environ[CONFIG_VARIABLE]), tmp_path, tmp_path
        )
        begun.append(Runtime(folders))
        return begun[-1]

    yield begin
    for runtime in begun:
        await runtime.close()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == expiry.__name__]


async def test_threads_expire_by_the_configuration_and_the_log_tells_how_many(
    expiring: Callable[[], Runtime], caplog: pytest.LogCaptureFixture
) -> None:
    write_config("[retention]\ndays = 30\n")
    old, new = write(), write(Pair("assistant", "new"), 86_400)
    damaged = write(Pair("assistant", "damaged"))
    beside(damaged, ".damaged").write_text("?")
    expiring()
    await until_seen(lambda: bool(told(caplog)))
    assert told(caplog) == ["1 threads have expired and are deleted; 1 that are due stay"]
    assert (old.exists(), new.exists(), damaged.exists()) == (False, True, True)


@pytest.mark.parametrize("config", ["", "[retention]\n", "[sessions]\nturns_in_flight = 2\n"])
async def test_without_figures_nothing_ever_expires(
    expiring: Callable[[], Runtime],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
) -> None:
    write_config(config)
    path = write()
    looked = threading.Semaphore(0)
    monkeypatch.setattr(expiry, "AGAIN_SECONDS", 0.0)
    find = expiry.Catalogue.config

    def config_of(self: expiry.Catalogue) -> object:
        looked.release()
        return find(self)

    monkeypatch.setattr(expiry.Catalogue, "config", config_of)
    expiring()
    for _ in range(3):
        assert await asyncio.to_thread(looked.acquire, timeout=PATIENCE_SECONDS)
    assert path.exists()
    assert told(caplog) == []


async def test_a_broken_configuration_lets_nothing_expire_and_is_told(
    expiring: Callable[[], Runtime], caplog: pytest.LogCaptureFixture
) -> None:
    write_config("[retention]\ndays = 'few'\n")
    path = write()
    expiring()
    await until_seen(lambda: bool(told(caplog)))
    assert told(caplog)[0].startswith("nothing expires while config.toml is broken: ")
    assert path.exists()


async def test_an_open_session_keeps_its_thread_also_while_it_holds_nothing(
    expiring: Callable[[], Runtime],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiry, "FIRST_SECONDS", YEAR_SECONDS)
    write_config("[sessions]\nidle_seconds = 0.001\n[retention]\nthreads = 1\n")
    path = write()
    closed = write(Pair("assistant", "closed"))
    write(Pair("assistant", "newest"), 1000)
    runtime = expiring()
    session = runtime.session(PAIR)
    thread, created = await session.resume(SessionOptions())
    assert (created, len(thread.messages)) == (False, 2)
    await until_seen(lambda: session.thread is None)  # it is idle, and its lock is free
    runtime.services.expiry._begin_look()
    await until_seen(lambda: bool(told(caplog)))
    assert told(caplog) == ["1 threads have expired and are deleted; 1 that are due stay"]
    assert (path.exists(), closed.exists()) == (True, False)


async def test_a_session_that_opens_while_its_thread_is_deleted_waits_and_begins_afresh(
    expiring: Callable[[], Runtime], answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(say("Who?"))
    write_config("[retention]\ndays = 30\n")
    path = write()
    deleting, go_on, waits = (threading.Event() for _ in range(3))
    clear, settle = whole._clear, expiry.Expiry.settle

    def slowly(gone: Path) -> None:
        deleting.set()
        assert go_on.wait(PATIENCE_SECONDS)
        clear(gone)

    def settled(self: expiry.Expiry) -> None:
        waits.set()
        settle(self)

    monkeypatch.setattr(whole, "_clear", slowly)
    monkeypatch.setattr(expiry.Expiry, "settle", settled)
    runtime = expiring()
    assert await asyncio.to_thread(deleting.wait, PATIENCE_SECONDS)
    asked = ask(runtime, "What is my name?")
    assert await asyncio.to_thread(waits.wait, PATIENCE_SECONDS)
    assert not asked.done()
    go_on.set()
    outcome = await asked
    assert (outcome.turn, outcome.messages) == (1, (0, 1))
    assert b"Mac" not in path.read_bytes()


async def test_in_a_race_with_a_resume_a_thread_lives_with_its_history_or_begins_afresh(
    expiring: Callable[[], Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "FIRST_SECONDS", YEAR_SECONDS)
    write_config("[retention]\ndays = 30\n")
    runtime = expiring()
    chance = random.Random(4)
    outcomes = set()
    for number in range(60):
        pair = Pair("assistant", f"raced{number}")
        path = write(pair)
        whole = path.read_bytes()
        runtime.services.expiry._begin_look()
        looking = runtime.services.expiry._task
        assert looking is not None
        # At once, in the middle, or when it is over: the loop runs on while the worker deletes.
        for _ in range(chance.choice((1, 3, 10, 30, 100)) if number else 0):
            await asyncio.sleep(0)
        if number == 1:
            await looking
        thread, created = await runtime.session(pair).resume(SessionOptions())
        await looking
        kept = path.read_bytes()
        outcomes.add(created)
        if created:
            assert (thread.messages, kept.count(b"\n"), b"Mac" in kept) == ([], 1, False)
        else:
            assert (len(thread.messages), kept) == (2, whole)
        await runtime.session(pair).close()
        path.unlink()
    assert outcomes == {True, False}


async def test_a_close_ends_the_deleting_and_leaves_the_rest_whole(
    expiring: Callable[[], Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config("[retention]\ndays = 30\n")
    paths = [write(Pair("assistant", f"{n:02}"), YEAR_SECONDS - n) for n in range(20)]
    folder = paths[0].parent
    some, go_on = threading.Event(), threading.Event()
    delete = retention.delete

    def slowly(*arguments: object) -> bool:
        some.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return delete(*arguments)  # type: ignore[arg-type]  # what it was called with

    monkeypatch.setattr(retention, "delete", slowly)
    runtime = expiring()
    assert await asyncio.to_thread(some.wait, PATIENCE_SECONDS)
    closing = asyncio.create_task(runtime.close())
    await until_seen(runtime.services.expiry._stop.is_set)
    go_on.set()
    await closing
    left = sorted(path.name for path in folder.iterdir())
    assert left == [f"{number:02}.jsonl" for number in range(1, 20)]
