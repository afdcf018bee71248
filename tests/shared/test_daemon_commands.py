"""`treadle daemon`, as a person types it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.process import is_alive, linux_only, posix_only, until_dead
from support.shared import connected, daemon_pid, is_there, meeting
from support.waiting import PATIENCE_SECONDS
from treadle.cli.main import main
from treadle.folders import LOG_VARIABLE
from treadle.rendezvous import asking
from treadle.rendezvous.address import Address
from treadle.rendezvous.holding import hold, is_held
from treadle.rendezvous.told import write_told

DAEMON = (sys.executable, "-m", "treadle", "daemon")

# Instead of ten: a test knows that its daemon does not answer.
SHORT_SECONDS = 0.2


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `treadle daemon` with these words."""
    return subprocess.run(
        [*DAEMON, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("words", [("status",), ("status", "--json"), ("stop",)])
def test_where_none_runs_that_is_said_and_none_is_started(words: tuple[str, ...]) -> None:
    done = typed(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no shared daemon runs for" in done.stderr
    assert not Path(meeting().socket).exists()


async def test_status_tells_who_it_is_and_where_everything_lies() -> None:
    async with connected(), connected():
        told = json.loads((await asyncio.to_thread(typed, "status", "--json")).stdout)
        assert told["pid"] == daemon_pid()
        assert told["clients"] == 3  # this question is the third
        assert told["socket"] == meeting().socket
        assert told["log"].startswith(os.environ[LOG_VARIABLE])
        assert all(is_there(told[name]) for name in ("log", "printed"))
        assert told["memoryBytes"] > 1 << 20
        plain = (await asyncio.to_thread(typed, "status")).stdout
        for words in (f"pid {daemon_pid()}, Treadle ", "2 clients, 0 sessions", meeting().socket):
            assert words in plain


async def test_stop_waits_until_it_is_gone_and_if_idle_leaves_one_at_work() -> None:
    async with connected(stderr=subprocess.DEVNULL) as client:
        pid = daemon_pid()
        refused = await asyncio.to_thread(typed, "stop", "--if-idle")
        assert (refused.returncode, refused.stderr) == (
            1,
            "treadle: it goes on: 1 other clients\n",
        )
        await client.request("daemon/status")
        done = await asyncio.to_thread(typed, "stop")
        assert (done.returncode, done.stdout) == (0, "the shared daemon has ended\n")
        assert not is_held(meeting().lock)
        await until_dead(pid)


async def test_restart_starts_another_also_where_none_was() -> None:
    first = await asyncio.to_thread(typed, "restart")
    before = daemon_pid()
    assert (first.returncode, first.stdout) == (0, f"the shared daemon runs (pid {before})\n")
    second = await asyncio.to_thread(typed, "restart")
    assert second.returncode == 0
    assert daemon_pid() != before
    await until_dead(before)


@posix_only
async def test_force_kills_one_that_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(stderr=subprocess.DEVNULL):
        pid = daemon_pid()
        monkeypatch.setattr(asking, "ANSWER_SECONDS", SHORT_SECONDS)
        os.kill(pid, signal.SIGSTOP)
        assert await asyncio.to_thread(main, ["daemon", "stop"]) == 69
        assert is_alive(pid)
        assert await asyncio.to_thread(main, ["daemon", "stop", "--force"]) == 0
        await until_dead(pid)


@linux_only
def test_force_kills_nobody_but_the_one_that_holds_the_lock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = meeting()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        held = hold(address.lock)
        assert held is not None
        write_told(address, version="1", environment={}, started_at=0)
        told = Path(address.told)
        told.write_text(told.read_text().replace(f"pid={os.getpid()}", f"pid={other.pid}"))
        assert main(["daemon", "stop", "--force"]) == 69
        assert "does not tell which process it is" in capsys.readouterr().err
        assert other.poll() is None
        held.release()
        told.unlink()
        other.communicate(b"\n", PATIENCE_SECONDS)


def test_logs_shows_the_end_of_the_log_and_says_where_none_is() -> None:
    none = typed("logs")
    assert (none.returncode, none.stdout) == (1, "")
    assert "no log yet at" in none.stderr
    assert typed("restart").returncode == 0
    assert typed("stop").returncode == 0
    assert len(typed("logs", "--lines", "2").stdout.splitlines()) == 2
    assert "ended with code 0" in typed("logs").stdout
    assert typed("logs", "-n", "0").stdout == ""


async def test_logs_that_are_followed_go_on_with_what_comes() -> None:
    async with connected():
        following = await asyncio.create_subprocess_exec(
            *DAEMON, "logs", "--follow", "-n", "1", stdout=subprocess.PIPE
        )
        try:
            assert following.stdout is not None
            async with asyncio.timeout(PATIENCE_SECONDS):
                await following.stdout.readline()
                async with connected() as second:
                    await second.end()
                assert await following.stdout.readline()
        finally:
            with contextlib.suppress(ProcessLookupError):
                following.send_signal(signal.SIGINT)
            assert await following.wait() == 130


def test_status_is_asked_of_the_daemon_that_a_test_was_given(shared_daemon: Address) -> None:
    assert json.loads(typed("status", "--json").stdout)["socket"] == shared_daemon.socket
