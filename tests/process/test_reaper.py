"""The process that ends what a killed daemon leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.process import children_of, linux_only, until_dead
from support.switchboard import HELLO, Switchboard, within_bound
from support.waiting import until_seen
from treadle.process import started
from treadle.process.command import Command
from treadle.process.reaper import Reaper
from treadle.process.telling import begun, ended, standing
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
    monkeypatch.setattr(started, "REAPER", ours)
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


ONE, TWO = "1" * 32, "2" * 32


def test_what_was_forgotten_is_left_alone() -> None:
    told = begun(Tree(5, ONE, 70)) + begun(Tree(6, f"{ONE},{TWO}", 71)) + ended(Tree(5, ONE, 70))
    assert standing(told.encode().splitlines(keepends=True)) == [Tree(6, TWO, 71)]


def test_a_tree_is_told_of_before_it_has_begun_and_again_once_its_leader_is_known() -> None:
    told = begun(Tree(0, ONE)) + begun(Tree(5, ONE, 70))
    assert standing(told.encode().splitlines(keepends=True)) == [Tree(5, ONE, 70)]


def test_lines_that_are_none_of_ours_say_nothing() -> None:
    told = [
        *(b"", b"+", b"-", b"\xff\xfe\0", b"+5 70", b"+5 70 " + b"1" * 31),
        *(b"+-5 70 " + b"1" * 32, b"+5 7e1 " + b"1" * 32, b"+5 70 " + b"G" * 32),
        *(b"+" + b"9" * 5000 + b" 70 " + b"1" * 32, b"+5 70 " + b"1" * 32 + b" more"),
        "+\u0665 70 ".encode() + b"1" * 32,
    ]
    assert standing(told) == []


async def test_what_is_about_to_begin_when_its_starter_is_killed_is_ended_by_its_mark(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    mark = "3" * 32
    ours = Reaper()
    await asyncio.to_thread(ours.begin)
    ours.watch(Tree(0, mark))
    # As one that a killed daemon had just forked, and did not live to tell the pid of.
    shell = await asyncio.create_subprocess_shell(
        f"TREADLE_JOB={mark} {switchboard.calling()}", stdin=asyncio.subprocess.DEVNULL
    )
    (pid,) = await switchboard.called(1)
    reaper = ours._process
    assert reaper is not None and reaper.stdin is not None
    reaper.stdin.close()
    await switchboard.dead(pid)
    await within_bound(shell.wait())
    assert await asyncio.to_thread(reaper.wait, 10) == 0


# Another in small: a child that is spoken with, whose grandchildren hold its pipes.
SPEAKS = """
import asyncio, os, sys
from treadle.process.child import Child
async def main():
    child = await Child.start([sys.executable, "-I", "-S", "-c", sys.argv[1]], env=os.environ)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_children_end_with_their_killed_daemon_deaf_and_runaway_ones_too(
    switchboard: Switchboard,
) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + HELLO
    rest = f"{deaf}time.sleep(600)"
    code = (
        f"{deaf}for apart in (False, True):\n"
        f"    subprocess.Popen([sys.executable, '-I', '-S', '-c', {rest!r}],"
        " start_new_session=apart)\ntime.sleep(600)"
    )
    starter = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SPEAKS, code), env={**os.environ, "PORT": str(switchboard.port)}
    )
    pids = await switchboard.called(3)
    children = children_of(starter.pid)
    starter.kill()
    await within_bound(starter.wait())
    await switchboard.dead(*pids)
    for child in children:
        await until_dead(child)
