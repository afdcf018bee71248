"""The process that ends what a killed daemon leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.process import children_of, linux_only, until_dead
from support.switchboard import Switchboard, within_bound
from support.waiting import until_seen
from treadle.process import command as commands
from treadle.process.command import Command
from treadle.process.reaper import Reaper, _left
from treadle.process.tree import Tree

pytestmark = linux_only

# A daemon in small: starts one command, says so, and hangs.
HANGS = """
import asyncio, pathlib, sys
from treadle.process.command import Command
async def main():
    command = await Command.start(["/bin/sh", "-c", sys.argv[1]], env={}, cwd=pathlib.Path("/"))
    if sys.argv[2] == "end":
        await command.end(10)
        print("ended", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def hanging(command: str, then: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", HANGS, command, then, stdout=asyncio.subprocess.PIPE
    )


async def test_what_runs_when_its_starter_is_killed_is_ended_and_so_is_the_reaper(
    switchboard: Switchboard,
) -> None:
    starter = await hanging(f"{switchboard.calling()} & {switchboard.calling()}; true", "hang")
    pids = await switchboard.called(2)
    children = children_of(starter.pid)
    starter.kill()
    await within_bound(starter.wait())
    await switchboard.dead(*pids)
    for child in children:
        await until_dead(child)


async def test_it_minds_no_signal_that_ends_its_starter(switchboard: Switchboard) -> None:
    starter = await hanging(f"exec {_env(switchboard)}", "hang")
    (pid,) = await switchboard.called(1)
    (reaper,) = [child for child in children_of(starter.pid) if child != pid]
    mortal = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    await until_seen(lambda: _ignored(reaper).issuperset(mortal))
    for number in mortal:
        os.kill(reaper, number)
    starter.kill()
    await within_bound(starter.wait())
    await switchboard.dead(pid)
    await until_dead(reaper)


def _env(switchboard: Switchboard) -> str:
    return f"env {switchboard.calling()}"


def _ignored(pid: int) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:")]
    return {number for number in range(1, 32) if mask >> (number - 1) & 1}


async def test_one_reaper_is_enough_and_ends_with_its_starter() -> None:
    starter = await hanging("true", "end")
    assert starter.stdout is not None
    assert await within_bound(starter.stdout.readline()) == b"ended\n"
    (reaper,) = children_of(starter.pid)
    starter.terminate()
    await within_bound(starter.wait())
    await until_dead(reaper)


async def test_a_reaper_that_died_is_replaced_and_told_all_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = Reaper()
    monkeypatch.setattr(commands, "REAPER", ours)
    first = await Command.start(["/bin/sleep", "600"], env={}, cwd=tmp_path)
    assert ours._process is not None
    ours._process.kill()
    ours._process.wait()
    second = await Command.start(["/bin/sleep", "600"], env={}, cwd=tmp_path)

    # As the kernel does it when a daemon is killed.
    reaper = ours._process
    assert reaper.stdin is not None
    reaper.stdin.close()
    for command in (first, second):
        await within_bound(command.exited.wait())
        assert await command.end(10)
    assert await asyncio.to_thread(reaper.wait, 10) == 0


def test_what_was_forgotten_is_left_alone() -> None:
    told = [b"+5 70 aa\n", b"+6 71 aa,bb\n", b"-aa\n", b"-cc\n"]
    assert _left(told) == [Tree(6, "aa,bb", 71)]
