"""A session that nobody uses is held no longer, and nobody sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from support.person import stored, write_config
from support.sessions import PAIR, Answering, Watched, ask, said
from treadle.agents.options import SessionOptions
from treadle.errors import OptionsDiffer, ThreadLocked
from treadle.models.scripted import Scripted
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime
from treadle.thread.lock import holder
from treadle.thread.message import Message
from treadle.thread.thread import Thread
from treadle.turn.env import Env

_OPTIONS = SessionOptions(max_turns=3)


async def _until(condition: Callable[[], bool]) -> None:
    """Poll what tells nobody that it has changed."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - a lock file sets no event
            await asyncio.sleep(0.005)


def _is_free(path: Path) -> bool:
    return holder(path) is None


async def test_an_idle_session_lets_its_thread_go_and_comes_back_from_the_file(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[sessions]\nidle_seconds = 0.05\n")
    answering(Scripted(["One.", "Two."]))
    watched = Watched(runtime)
    await ask(runtime, "a", options=_OPTIONS)
    await _until(lambda: _is_free(stored(*PAIR)))

    session = runtime.session(PAIR)
    assert (session.state, session.thread) == ("idle", None)
    assert [(one.state, one.held_by) for one in (await runtime.summaries())[0]] == [("idle", None)]
    assert [one.content for one in await said(runtime)] == ["a", "One."]
    with pytest.raises(OptionsDiffer):
        await session.resume(SessionOptions(max_turns=2))
    assert not (await session.resume(_OPTIONS))[1]
    outcome = await ask(runtime, "b")
    assert (outcome.turn, outcome.messages) == (2, (2, 3))
    assert [one.seq for one in watched.events] == list(range(1, len(watched.events) + 1))
    assert "closed" not in [one.state for one in watched.states]


async def test_closing_an_idle_session_forgets_on_what_terms_it_was_open(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[sessions]\nidle_seconds = 0.05\n")
    answering(Scripted(["One."]))
    await ask(runtime, "a", options=_OPTIONS)
    await _until(lambda: _is_free(stored(*PAIR)))
    assert await runtime.session(PAIR).close()
    assert not await runtime.session(PAIR).close()
    await runtime.session(PAIR).resume(SessionOptions(max_turns=2))


async def test_another_process_may_take_the_thread_of_an_idle_session(
    runtime: Runtime, answering: Answering
) -> None:
    write_config("[sessions]\nidle_seconds = 0.05\n")
    answering(Scripted(["One.", "Two."]))
    await ask(runtime, "a")
    await _until(lambda: _is_free(stored(*PAIR)))
    other = Thread.open(stored(*PAIR))
    with pytest.raises(ThreadLocked):
        await ask(runtime, "b")
    assert runtime.session(PAIR).state == "idle"
    other.close()
    assert (await ask(runtime, "b")).done.text == "Two."


async def test_a_session_that_works_is_not_idle(runtime: Runtime, answering: Answering) -> None:
    write_config("[sessions]\nidle_seconds = 0.02\n")
    go_on = asyncio.Event()

    async def slow(env: Env) -> None:
        await go_on.wait()
        await env.append(Message("assistant", "Long."))

    answering(slow)
    other = Pair("assistant", "other")
    await runtime.session(other).resume(SessionOptions())
    running = ask(runtime, "a")
    await _until(lambda: _is_free(stored(*other)))
    assert runtime.session(PAIR).thread is not None
    go_on.set()
    assert (await running).done.text == "Long."
