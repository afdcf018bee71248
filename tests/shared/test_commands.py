"""The command line on the shared daemon: prompt, call, watch, and what deletes a session."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.daemon import daemon
from support.model_server import Answer, ModelServer
from support.person import stored, write_agent, write_config
from support.scripts import scripted_agent
from support.shared import connected, daemon_pid, kill_daemon
from support.waiting import PATIENCE_SECONDS
from treadle.cli import exit_codes

NAME = "talker"
PAIR = {"agent": NAME, "instance": "one"}
TREADLE = (sys.executable, "-m", "treadle")
ABOUT = ("-a", NAME, "-i", "one")


def run(*words: str, said: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*TREADLE, *words],
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=cwd,
    )


class Running:
    """A command that goes on while the test looks."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""
        assert process.stdout is not None
        self._stdout = process.stdout

    async def says(self, text: str) -> None:
        """Wait, within a bound, until it has printed something."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while text not in self.said:
                more = await self._stdout.read(4096)
                assert more, f"it ended, and had said: {self.said}"
                self.said += more.decode()


@asynccontextmanager
async def running(*words: str) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        *TREADLE,
        *words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def pausing() -> AsyncIterator[asyncio.Event]:
    """Write an agent that stops in the middle of each answer until the event."""
    go_on = asyncio.Event()
    async with ModelServer(lambda _: Answer("One two three", pause_after=2, go_on=go_on)) as server:
        write_agent(NAME, model="test-model", base_url=server.base_url)
        yield go_on


def test_two_prompts_of_two_processes_go_to_one_daemon_that_remembers() -> None:
    scripted_agent(NAME, {"text": "Hello."})
    assert run("prompt", *ABOUT, "Hi").stdout == "Hello.\n"
    pid = daemon_pid()
    assert run("prompt", *ABOUT, said="And again\n").stdout == "Hello.\n"
    assert daemon_pid() == pid
    read = json.loads(run("call", "session/read", json.dumps(PAIR)).stdout)
    assert [one["content"] for one in read["messages"]] == ["Hi", "Hello.", "And again", "Hello."]
    assert json.loads(run("call", "daemon/status").stdout)["pid"] == pid


def test_a_command_of_its_own_leaves_no_daemon() -> None:
    scripted_agent(NAME, {"text": "Hello."})
    assert run("prompt", *ABOUT, "--no-daemon", "Hi").stdout == "Hello.\n"
    assert run("call", "--no-daemon", "session/list").returncode == 0
    none = run("daemon", "status")
    assert (none.returncode, "no shared daemon runs" in none.stderr) == (
        exit_codes.FAILED,
        True,
    )


def test_the_same_prompt_under_one_key_runs_once_in_however_many_processes() -> None:
    scripted_agent(NAME, {"text": "First."}, {"text": "Second."})
    for _ in range(3):
        assert run("prompt", *ABOUT, "--key", "k", "Hi").stdout == "First.\n"
    assert run("prompt", *ABOUT, "--key", "other", "Hi").stdout == "Second.\n"


async def test_exit_codes_tell_a_script_what_became_of_its_prompt() -> None:
    async with pausing() as go_on, running("prompt", *ABOUT, "Slow") as first:
        await first.says("One two")
        busy = await asyncio.to_thread(run, "prompt", *ABOUT, "--when-busy", "reject", "Me")
        assert (busy.returncode, "[busy]" in busy.stderr) == (exit_codes.TRY_LATER, True)
        first.process.send_signal(signal.SIGINT)
        assert await first.process.wait() == exit_codes.INTERRUPTED
        go_on.set()
    unknown = await asyncio.to_thread(run, "prompt", "-a", "nobody", "Hi")
    assert unknown.returncode == exit_codes.FAILED


async def test_ctrl_c_takes_back_a_prompt_that_waits_and_not_the_turn_before_it() -> None:
    async with pausing() as go_on, running("prompt", *ABOUT, "Theirs") as theirs:
        await theirs.says("One two")
        async with running("prompt", *ABOUT, "Mine") as mine, connected() as watcher:
            await watcher.request("session/attach", PAIR)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await watcher.request("session/attach", PAIR))["snapshot"]["queued"] != 1:
                    pass
            mine.process.send_signal(signal.SIGINT)
            assert await mine.process.wait() == exit_codes.INTERRUPTED
        go_on.set()
        await theirs.says("three")
        assert await theirs.process.wait() == exit_codes.OK
    assert "Mine" not in text_of(stored(NAME, "one"))


async def test_a_prompt_that_is_killed_takes_its_turn_along() -> None:
    async with pausing(), connected() as watcher:
        await watcher.request("session/attach", PAIR)
        async with running("prompt", *ABOUT, "Slow") as script:
            await script.says("One two")
            script.process.kill()
        await watcher.until(lambda: bool(watcher.of("session/done")))
        assert watcher.of("session/done")[0]["stopReason"] == "cancelled"


async def test_a_daemon_that_dies_under_a_prompt_is_told_with_what_to_do() -> None:
    async with pausing(), running("prompt", *ABOUT, "Slow") as script:
        await script.says("One two")
        pid = kill_daemon()
        await script.says(f"the shared daemon (pid {pid}) has ended")
        assert await script.process.wait() == exit_codes.UNREACHABLE
    assert "Slow" in text_of(stored(NAME, "one"))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def test_watch_shows_what_others_say_and_comes_back_after_a_restart() -> None:
    scripted_agent(NAME, {"text": "Hello.", "calls": []})
    async with running("watch", *ABOUT) as watching:
        await watching.says("[closed]")
        await asyncio.to_thread(run, "prompt", *ABOUT, "Hi there")
        await watching.says("> Hi there\nHello.\n")
        kill_daemon()
        await watching.says("has ended")
        # It connects again by itself, and so starts the daemon.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await watched():
                pass
        await asyncio.to_thread(run, "prompt", *ABOUT, "Me again")
        await watching.says("> Me again\nHello.\n")
        watching.process.send_signal(signal.SIGINT)
        assert await watching.process.wait() == exit_codes.INTERRUPTED


async def watched() -> bool:
    async with connected() as client:
        return bool((await client.request("session/attach", PAIR))["watchers"] > 1)


async def test_watch_as_json_prints_each_message_once() -> None:
    scripted_agent(NAME, {"text": "Hello."})
    async with running("watch", *ABOUT, "--json") as watching:
        await watching.says("session/attach")
        await asyncio.to_thread(run, "prompt", *ABOUT, "Hi")
        await watching.says('"session/done"')
        await watching.says('"state": "idle", "queued": 0, "storage": "ok"}}\n')
    told: list[dict[str, Any]] = [json.loads(line) for line in watching.said.splitlines()]
    names = [name for line in told for name in line]
    assert names == [
        "session/attach",
        "session/state",
        "session/state",
        "session/said",
        "session/delta",
        "session/done",
        "session/state",
    ]


async def test_who_holds_a_thread_is_named_with_the_way_there() -> None:
    scripted_agent(NAME, {"text": "Hello."})
    await asyncio.to_thread(run, "prompt", *ABOUT, "Hi")
    alone = await asyncio.to_thread(run, "prompt", *ABOUT, "--no-daemon", "Hi")
    assert alone.returncode == exit_codes.FAILED
    assert "that is the shared daemon: speak to the session there" in alone.stderr
    async with daemon() as sidecar:
        other = {**PAIR, "instance": "two"}
        await sidecar.request("session/prompt", {**other, "prompt": "Hi"})
        held = await asyncio.to_thread(run, "prompt", "-a", NAME, "-i", "two", "Hi")
        assert f"process {sidecar.process.pid} is a daemon or a script with one" in held.stderr


def test_a_session_that_the_daemon_holds_can_be_deleted_by_a_command() -> None:
    scripted_agent(NAME, {"text": "Hello."})
    run("prompt", *ABOUT, "Hi")
    assert stored(NAME, "one").exists()
    done = run("sessions", "delete", *ABOUT, "--yes")
    assert (done.returncode, done.stderr) == (0, "deleted\n")
    assert not stored(NAME, "one").exists()
    assert run("prompt", *ABOUT, "Hi").stdout == "Hello.\n"


def test_a_prompt_from_another_folder_works_there(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"this is {name}")
    calls = [{"name": "read", "arguments": {"path": "a.txt"}}]
    scripted_agent(NAME, {"calls": calls}, {"text": "Read."}, sandbox="local")
    for name in ("here", "there", "here"):
        run("prompt", *ABOUT, "Read it", cwd=tmp_path / name)
        read = json.loads(run("call", "session/read", json.dumps({**PAIR, "last": 2})).stdout)
        assert f"this is {name}" in read["messages"][0]["content"]


async def test_where_others_watch_a_session_it_stays_where_it_is_and_that_is_said(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "there")
    scripted_agent(NAME, {"text": "Hello."}, sandbox="local")
    async with connected(initialize=False) as editor:
        await editor.initialize(rootUri=tmp_path.as_uri())
        await editor.request("session/resume", PAIR)
        told = await asyncio.to_thread(run, "prompt", *ABOUT, "Hi", cwd=folder)
        assert told.stdout == "Hello.\n"
        assert f"this session works in {tmp_path}, where others have it open" in told.stderr


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("place", ["a file", "open to others"])
def test_a_meeting_place_that_cannot_be_is_an_error_that_says_what_helps(place: str) -> None:
    folder = Path(os.environ["TREADLE_RUNTIME_DIR"])
    if place == "a file":
        folder.touch()
    else:
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    scripted_agent(NAME, {"text": "Hello."})
    refused = run("prompt", *ABOUT, "Hi")
    assert (refused.returncode, "[unsafe_place]" in refused.stderr) == (69, True)
    assert run("prompt", *ABOUT, "--no-daemon", "Hi").stdout == "Hello.\n"
    if place == "a file":
        folder.unlink()
    else:
        folder.chmod(0o700)


def test_a_daemon_without_clients_and_turns_ends_by_itself() -> None:
    write_config("[daemon]\nidle_exit_seconds = 0.5\n")
    scripted_agent(NAME, {"text": "Hello."})
    assert run("prompt", *ABOUT, "Hi").stdout == "Hello.\n"
    from support.shared import meeting
    from treadle.rendezvous.reaching import wait_until_gone

    assert wait_until_gone(meeting(), PATIENCE_SECONDS)
    assert not Path(meeting().socket).exists()
    assert run("prompt", *ABOUT, "Hi").stdout == "Hello.\n"
