"""Commands: one pipe, no input, and an end that reaches whatever they started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.process import linux_only, posix_only
from support.switchboard import Switchboard, within_bound
from treadle.process.census import MARK_VARIABLE
from treadle.process.command import Command
from treadle.process.tree import Tree, new_mark

pytestmark = posix_only

# For what minds TERM: it is never sat out. For what does not, KILL comes soon.
PATIENT_SECONDS = 20.0
SOON_SECONDS = 0.05

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
# A daemon as the books have it: two forks and a session of its own.
DAEMON = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)"


async def start(command: str, folder: Path) -> Command:
    env = {"PATH": os.environ["PATH"]}
    return await Command.start(["/bin/sh", "-c", command], env=env, cwd=folder)


async def test_both_streams_come_through_one_pipe_in_order_and_there_is_no_input(
    tmp_path: Path,
) -> None:
    command = await start("echo out; echo err >&2; cat; pwd; exit 3", tmp_path)

    assert await within_bound(command.output.read()) == f"out\nerr\n{tmp_path}\n".encode()
    await within_bound(command.exited.wait())
    assert command.exit_code == 3
    assert not await command.has_left_any()
    assert await command.end(PATIENT_SECONDS)


async def test_what_runs_is_ended_with_its_grandchildren(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    command = await start(f"{switchboard.calling()} & {switchboard.calling()}; true", tmp_path)
    family = await switchboard.called(2)

    assert await within_bound(command.end(PATIENT_SECONDS))
    await switchboard.dead(*family)
    assert command.exit_code == -signal.SIGTERM


async def test_who_is_deaf_to_term_is_killed(switchboard: Switchboard, tmp_path: Path) -> None:
    deaf = switchboard.calling(first=DEAF)
    command = await start(f"trap '' TERM; {deaf} & {deaf}; true", tmp_path)
    family = await switchboard.called(2)

    assert await within_bound(command.end(SOON_SECONDS))
    await switchboard.dead(*family)
    assert command.exit_code == -signal.SIGKILL


@linux_only
@pytest.mark.parametrize("deaf", ["", DEAF])
async def test_a_daemon_that_left_the_group_is_found_and_ended(
    switchboard: Switchboard, tmp_path: Path, deaf: str
) -> None:
    command = await start(switchboard.calling(first=f"{DAEMON}\n{deaf}"), tmp_path)
    (daemon,) = await switchboard.called(1)
    await within_bound(command.exited.wait())
    assert os.getpgid(daemon) != command.pid
    assert await command.has_left_any()

    assert await within_bound(command.end(SOON_SECONDS))
    await switchboard.dead(daemon)


@linux_only
async def test_a_command_of_a_daemon_that_runs_in_a_command_ends_with_the_outer_one(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    code = (
        "import asyncio, pathlib\n"
        "from treadle.process.command import Command\n"
        "async def main():\n"
        f"    await Command.start(['/bin/sh', '-c', {switchboard.calling()!r}],\n"
        "        env={}, cwd=pathlib.Path('/'))\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "inner.py").write_text(code)
    command = await start(f"{sys.executable} inner.py", tmp_path)
    (inner,) = await switchboard.called(1)
    assert os.getpgid(inner) != command.pid

    assert await within_bound(command.end(PATIENT_SECONDS))
    await switchboard.dead(inner)


async def test_the_end_of_one_command_leaves_another_alone(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    first = await start(switchboard.calling(), tmp_path)
    ours = await switchboard.called(1)
    other = await start(switchboard.calling(), tmp_path)
    (theirs,) = await switchboard.called(2) - ours

    assert await within_bound(first.end(PATIENT_SECONDS))
    await switchboard.dead(*ours)
    assert other.exit_code is None
    assert not switchboard.ended[theirs].is_set()
    assert await within_bound(other.end(PATIENT_SECONDS))


async def test_a_caller_cancelled_while_it_ends_one_is_cancelled_once_it_has_ended(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    command = await start(switchboard.calling(first=DEAF), tmp_path)
    (pid,) = await switchboard.called(1)

    ending = asyncio.create_task(command.end(SOON_SECONDS))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_bound(ending)
    assert command.exit_code is not None
    await switchboard.dead(pid)


async def test_a_caller_cancelled_while_it_starts_one_leaves_nothing(
    switchboard: Switchboard, tmp_path: Path
) -> None:
    starting = asyncio.create_task(start(switchboard.calling(), tmp_path))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_bound(starting)
    assert not [pid for pid, ended in switchboard.ended.items() if not ended.is_set()]


async def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await start("true", tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        await Command.start([str(tmp_path / "none")], env={}, cwd=tmp_path)


def test_a_mark_is_new_each_time_and_holds_those_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(MARK_VARIABLE, raising=False)
    alone = new_mark()
    assert alone != new_mark()
    monkeypatch.setenv(MARK_VARIABLE, alone)
    assert new_mark().split(",")[0] == alone


@linux_only
def test_a_tree_without_anybody_is_not_alive() -> None:
    # No process has a pid above this: proc(5), /proc/sys/kernel/pid_max.
    assert not Tree(2**22 + 1, new_mark()).is_alive()
