"""Every way in which a daemon can end: soon, in order, with nothing lost and nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, daemon
from support.model_server import Answer, ModelServer
from support.person import on
from support.process import children_of, cpu_seconds, linux_only, until_dead
from support.waiting import PATIENCE_SECONDS

resource = pytest.importorskip("resource", reason="counts a process's time as POSIX does")

# `treadle serve` without the bounds of its end: one that waits for any of them never comes, and
# one in order may take as long as a busy machine needs.
UNBOUNDED = (
    sys.executable,
    "-c",
    "from treadle.cli.main import main\n"
    "from treadle.runtime import session, turn_in_flight\n"
    "from treadle.server import connection, ending, link, peer, running\n"
    "running.RUNTIME_SECONDS = ending.EXIT_SECONDS = link.DRAIN_SECONDS = 600\n"
    "link.CONNECTION_SECONDS = 600\n"
    "connection.CLOSE_SECONDS = peer.LEAVE_SECONDS = session.CLOSE_SECONDS = 600\n"
    "turn_in_flight.TELL_AGAIN_SECONDS = turn_in_flight.LEAVE_BEHIND_SECONDS = 600\n"
    "turn_in_flight.STOP_SECONDS = 600\n"
    "raise SystemExit(main(['serve']))\n",
)

# An end costs a few dozen milliseconds of processor time; one that spins costs all there is.
CALM_CPU_SECONDS = 1.0

PAIR = {"agent": "assistant", "instance": "a"}
HALF = "one two "
EDITOR = (sys.executable, str(Path(__file__).parent / "drivers" / "editor.py"))


async def close_input(client: Daemon) -> None:
    client.stdin.close()


async def close_output(client: Daemon) -> None:
    transport: Any = client.process._transport  # type: ignore[attr-defined]  # no public way to close one pipe
    output = transport.get_pipe_transport(1)
    output.close()
    while not output.get_extra_info("pipe").closed:  # noqa: ASYNC110 - the loop closes it soon
        await asyncio.sleep(0)
    client.ask("session/list")  # a pipe tells that its reader is gone only when it is written to


def kill_with(number: signal.Signals) -> Callable[[Daemon], Any]:
    async def kill(client: Daemon) -> None:
        client.process.send_signal(number)

    return kill


async def twice(client: Daemon) -> None:
    client.process.send_signal(signal.SIGTERM)
    client.process.send_signal(signal.SIGINT)
    client.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        client.process.send_signal(signal.SIGTERM)


async def say_exit(client: Daemon) -> None:
    client.notify("exit")


READING = {
    "end of input": close_input,
    "SIGTERM": kill_with(signal.SIGTERM),
    "SIGINT": kill_with(signal.SIGINT),
    "SIGHUP": kill_with(signal.SIGHUP),
    "several signals at once": twice,
}


@contextlib.asynccontextmanager
async def half_an_answer() -> AsyncIterator[tuple[Daemon, asyncio.Future[Any]]]:
    """Start a daemon and a turn whose model has said `HALF` and will never say the rest.

    Yields the daemon and the turn's prompt.
    """
    async with half_a_model() as model, daemon(env=on(model), program=UNBOUNDED) as client:
        prompt = client.ask("session/prompt", {**PAIR, "prompt": "Hi"})
        await client.until(lambda: len(client.of("session/delta")) == 2)
        yield client, prompt
        await model.until(lambda: model.open_requests == 0)


def half_a_model() -> ModelServer:
    """Make a model that says `HALF` and never the rest."""
    answer = Answer(["one ", "two ", "three"], pause_after=2)
    return ModelServer(lambda _: answer)


async def ended_soon(client: Daemon, way: Callable[[Daemon], Any]) -> int:
    """End a daemon; check that it ends, takes no processor and leaves no child."""
    pid = client.process.pid
    children, used = children_of(pid), cpu_seconds(pid)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    await way(client)
    code = await client.wait()
    for child in children:
        await until_dead(child)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - used
    assert cost < CALM_CPU_SECONDS
    return code


async def thread_now() -> list[tuple[str, str, bool]]:
    """Open the thread in another daemon, which needs its lock; return what it holds."""
    async with daemon() as client:
        resumed = await client.request("session/resume", PAIR)
        assert resumed["report"] == {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}
        read = await client.request("session/read", PAIR)
        assert await client.end() == 0
    return [(m["role"], m["content"], m.get("partial", False)) for m in read["messages"]]


@linux_only
@pytest.mark.parametrize("way", READING.values(), ids=READING)
async def test_a_turn_is_interrupted_in_order_when_the_daemon_has_to_end(
    way: Callable[[Daemon], Any],
) -> None:
    async with half_an_answer() as (client, prompt):
        assert await ended_soon(client, way) == 0
        result = await prompt
        assert (result["stopReason"], result["text"]) == ("interrupted", HALF)
        ends = [m for m in client.log if m.get("method") == "session/done" or "result" in m]
        assert [m.get("method") for m in ends[-2:]] == ["session/done", None]
        assert client.of("session/done")[0]["stopReason"] == "interrupted"
    assert await thread_now() == [("user", "Hi", False), ("assistant", HALF, True)]


@linux_only
async def test_a_turn_is_kept_when_the_client_closes_our_output() -> None:
    async with half_an_answer() as (client, _):
        assert await ended_soon(client, close_output) == 0
    assert await thread_now() == [("user", "Hi", False), ("assistant", HALF, True)]


@linux_only
@pytest.mark.parametrize("way", READING.values(), ids=READING)
async def test_a_daemon_with_an_idle_session_ends_at_once(way: Callable[[Daemon], Any]) -> None:
    async with daemon(program=UNBOUNDED) as client:
        await client.request("session/resume", PAIR)
        assert await ended_soon(client, way) == 0
    assert await thread_now() == []


@linux_only
@pytest.mark.parametrize("way", [close_input, READING["SIGTERM"]], ids=["input", "SIGTERM"])
async def test_a_daemon_that_was_never_greeted_ends_at_once(way: Callable[[Daemon], Any]) -> None:
    async with daemon(initialize=False, program=UNBOUNDED) as client:
        # A refusal proves that it listens, so that its signals are caught.
        with contextlib.suppress(Exception):
            await client.request("session/list")
        assert await ended_soon(client, way) == 0


@linux_only
async def test_signals_that_go_on_until_the_end_do_not_spoil_it() -> None:
    rng = random.Random(7)
    async with half_an_answer() as (client, prompt):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while client.process.returncode is None:
                number = rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
                # Not by `process.send_signal`, which looks whether it has ended, and then takes
                # the exit code away from whoever waits for it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(client.process.pid, number)
                await asyncio.sleep(0.001)  # no synchronisation: the pace of the storm
        assert client.process.returncode == 0
        assert (await prompt)["stopReason"] == "interrupted"
    assert await thread_now() == [("user", "Hi", False), ("assistant", HALF, True)]


@linux_only
async def test_a_daemon_whose_editor_is_killed_ends_and_keeps_the_turn() -> None:
    async with half_a_model() as model:
        editor = await asyncio.create_subprocess_exec(
            *EDITOR, stdout=asyncio.subprocess.PIPE, env={**os.environ, **on(model)}
        )
        assert editor.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            pid = int(await editor.stdout.readline())
        editor.kill()
        await editor.wait()
        await until_dead(pid)
        await model.until(lambda: model.open_requests == 0)
    (user, assistant) = await thread_now()
    assert user == ("user", "Hi", False)
    assert HALF.startswith(assistant[1]) and assistant[1]  # it died somewhere after a first word
    assert assistant[2] is True


@linux_only
async def test_exit_while_a_shutdown_is_under_way_waits_for_its_reply() -> None:
    async with half_an_answer() as (client, prompt):
        shutdowns = []

        async def shut_down(client: Daemon) -> None:
            shutdowns.append(client.ask("shutdown"))
            client.notify("exit")
            client.stdin.close()

        assert await ended_soon(client, shut_down) == 0
        assert (await prompt)["stopReason"] == "interrupted"
        assert await shutdowns[0] is None


@linux_only
async def test_a_thread_that_hangs_does_not_hold_up_the_end(
    serving: Callable[..., tuple[str, str]],
) -> None:
    program = serving(
        "import asyncio, threading",
        "from treadle.server.handlers import HANDLERS",
        "async def hang(params, peer):",
        "    await asyncio.to_thread(threading.Event().wait)",
        "HANDLERS['agent/list'] = hang",
    )
    async with daemon(program=program) as client:
        hung = client.ask("agent/list")
        await client.still_answers()
        assert await client.request("shutdown") is None
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(Exception, match="shutting_down"):
                await hung
        assert await ended_soon(client, say_exit) == 0


@linux_only
async def test_a_loop_that_hangs_does_not_outlive_a_signal(
    serving: Callable[..., tuple[str, str]],
) -> None:
    program = serving(
        "import time",
        "from treadle.server import ending",
        "from treadle.server.handlers import HANDLERS",
        "async def hang(params, peer):",
        "    print('hanging', flush=True)",
        "    time.sleep(3600)",
        "HANDLERS['agent/list'] = hang",
        "ending.HUNG_SECONDS = 0.3",
    )
    async with daemon(program=program, stderr=asyncio.subprocess.PIPE) as client:
        client.ask("agent/list")
        assert client.process.stderr is not None
        assert await client.process.stderr.readline() == b"hanging\n"
        assert await ended_soon(client, kill_with(signal.SIGTERM)) == 1
        assert b"in hang" in await client.process.stderr.read()
