"""Commands of a session of `treadle serve`: stopped with its turn, its close, its daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, daemon
from support.person import pair, stored, write_agent, write_config
from support.process import children_of, linux_only, posix_only, until_dead
from support.switchboard import Switchboard
from support.waiting import PATIENCE_SECONDS

pytestmark = posix_only

SECRET = "sk-never-to-be-seen-4711"


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., None]:
    """Write an agent `runner` that makes some calls of `shell`, and then says `Done.`, anew."""

    def write(*commands: dict[str, Any], **front_matter: object) -> None:
        replies: list[dict[str, Any]] = [
            {"calls": [{"name": "shell", "arguments": arguments}]} for arguments in commands
        ]
        script = tmp_path / "script.jsonl"
        script.write_text("\n".join(map(json.dumps, [*replies, {"text": "Done."}])))
        (tmp_path / "work").mkdir(exist_ok=True)
        front = {
            "model": f"scripted:{script}",
            "permissions": "auto",
            "sandbox": "local",
            "cwd": tmp_path / "work",
            "tools": "[shell]",
        }
        kept = {key: value for key, value in (front | front_matter).items() if value}
        write_agent("runner", **kept)

    return write


def here(**members: Any) -> dict[str, Any]:
    return pair("test", "runner", **members)


async def results(client: Daemon) -> list[str]:
    messages = (await client.request("session/read", here()))["messages"]
    return [one["content"] for one in messages if one["role"] == "tool"]


async def test_a_cancel_ends_a_command_with_its_grandchild_and_the_next_prompt_runs(
    agent: Callable[..., None], switchboard: Switchboard
) -> None:
    command = f"{switchboard.calling()} & {switchboard.calling()}; sleep 600"
    agent({"command": command})
    async with daemon() as client:
        running = client.ask("session/prompt", here(prompt="Go"))
        pids = await switchboard.called(2)
        cancelled = await client.request("session/cancel", here())
        assert cancelled == {"cancelled": True, "turn": 1}
        await switchboard.dead(*pids)
        assert (await running)["stopReason"] == "cancelled"
        assert (await client.request("session/prompt", here(prompt="Next")))["text"] == "Done."
        (interrupted,) = await results(client)
        assert "interrupted" in interrupted
        assert await client.end() == 0


async def test_a_close_stops_the_jobs_and_lists_them(
    agent: Callable[..., None], switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    write_config('[secrets]\nnames = ["A_TOKEN"]')
    command = f"{switchboard.calling()} & echo {SECRET}; wait"
    agent({"command": command, "background": True})
    async with daemon() as client:
        await client.request("session/prompt", here(prompt="Go"))
        pids = await switchboard.called(1)
        (result,) = await results(client)
        assert result.startswith("[job-1 runs in the background]\n")

        closed = await client.request("session/close", here())
        await switchboard.dead(*pids)
        (job,) = closed["released"].pop("processes")
        assert closed == {"closed": True, "released": {"servers": []}}
        assert job == {"pid": job["pid"], "command": job["command"], "exit": -signal.SIGTERM}
        assert job["command"].startswith(f"PORT={switchboard.port} ")
        assert len(job["command"]) == 200
        assert SECRET not in str(client.log)

        assert (await client.request("session/close", here()))["released"]["processes"] == []
        assert await client.end() == 0


async def test_a_session_with_a_job_is_not_let_go_of(
    agent: Callable[..., None], switchboard: Switchboard
) -> None:
    write_config("[sessions]\nidle_seconds = 0.05")
    agent({"command": switchboard.calling(), "background": True})
    async with daemon() as client:
        await client.request("session/prompt", here(prompt="Go"))
        (pid,) = await switchboard.called(1)
        # It has been idle for longer than another one that is let go of.
        await client.request("session/resume", pair("other", "runner"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "other" in (held := await _held(client)):
                pass
        assert held == ["test"]
        assert not switchboard.ended[pid].is_set()
        closed = await client.request("session/close", here())
        assert len(closed["released"]["processes"]) == 1
        await switchboard.dead(pid)


async def _held(client: Daemon) -> list[str]:
    sessions = (await client.request("session/list"))["sessions"]
    return [one["instance"] for one in sessions if one.get("heldBy")]


async def _told_to_end(client: Daemon) -> None:
    client.process.send_signal(signal.SIGTERM)
    assert await client.wait() in (0, 128 + signal.SIGTERM, -signal.SIGTERM)


async def _shut_down(client: Daemon) -> None:
    assert await client.end() == 0


async def _left(client: Daemon) -> None:
    client.stdin.close()
    await client.wait()


@pytest.mark.parametrize("end", [_told_to_end, _shut_down, _left])
async def test_however_a_daemon_ends_its_commands_end_with_it(
    agent: Callable[..., None],
    switchboard: Switchboard,
    end: Callable[[Daemon], Awaitable[None]],
) -> None:
    agent(
        {"command": f"{switchboard.calling()} & wait", "background": True},
        {"command": switchboard.calling()},
    )
    async with daemon() as client:
        prompt = client.ask("session/prompt", here(prompt="Go"))
        pids = await switchboard.called(2)
        await end(client)
        await switchboard.dead(*pids)
        await asyncio.wait({prompt})
        prompt.exception()


@pytest.mark.parametrize(
    ("front_matter", "tools"),
    [
        ({}, ["shell"]),
        ({"tools": "[shell, jobs, read]"}, ["read", "shell", "jobs"]),
        ({"tools": "[jobs, read]"}, ["read"]),
        ({"sandbox": "virtual", "cwd": None, "tools": "[shell, jobs, read]"}, ["read"]),
        ({"permissions": "read_only", "tools": "[shell, jobs, read]"}, ["read"]),
    ],
)
async def test_shell_is_told_of_only_where_it_can_run(
    agent: Callable[..., None],
    front_matter: dict[str, object],
    tools: list[str],
) -> None:
    agent(**front_matter)
    async with daemon() as client:
        listed = (await client.request("agent/list"))["agents"]
        assert [one["tools"] for one in listed if one["name"] == "runner"] == [tools]


@linux_only
async def test_a_daemon_that_is_killed_leaves_no_command_behind(
    agent: Callable[..., None], switchboard: Switchboard
) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    stray = "import os\nif os.fork(): os._exit(0)\nos.setsid()"
    agent(
        {"command": f"{switchboard.calling()} & wait", "background": True},
        {"command": f"{switchboard.calling(first=stray)}; {switchboard.calling(first=deaf)}"},
    )
    async with daemon() as client:
        prompt = client.ask("session/prompt", here(prompt="Go"))
        pids = await switchboard.called(3)
        helpers = set(children_of(client.process.pid))
        client.process.kill()
        await switchboard.dead(*pids)
        for pid in helpers:
            await until_dead(pid)
        await asyncio.wait({prompt})
        prompt.exception()


async def test_a_daemon_that_is_killed_leaves_no_search_behind(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    script = {"calls": [{"name": "grep", "arguments": {"pattern": "needle"}}]}
    (tmp_path / "script.jsonl").write_text(json.dumps(script))
    write_agent("runner", model=f"scripted:{tmp_path / 'script.jsonl'}", cwd=tmp_path / "work")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/file.txt").write_text("needle")
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{switchboard.calling()}\n")
    program.chmod(0o755)
    async with daemon(env={"PATH": f"{program.parent}:{os.environ['PATH']}"}) as client:
        prompt = client.ask("session/prompt", here(prompt="Go"))
        [pid] = await switchboard.called(1)
        client.process.kill()
        await switchboard.dead(pid)
        await asyncio.wait({prompt})
        prompt.exception()


@pytest.mark.parametrize("way", ["delete", "close"])
async def test_long_outputs_that_a_killed_daemon_left_go_with_their_session(
    agent: Callable[..., None], way: str
) -> None:
    agent({"command": "seq 100000"})
    async with daemon() as client:
        await client.request("session/prompt", here(prompt="Go"))
        await client.kill()
    left = stored("runner", "test").with_suffix(".outputs")
    assert [path.name.rpartition("-")[2] for path in left.iterdir()] == ["1.txt"]
    async with daemon() as client:
        await client.request("session/resume", here())
        await client.request(f"session/{way}", here())
        assert not left.exists()
