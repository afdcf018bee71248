"""What a daemon leaves that was killed together with its reaper: the next start ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.process import linux_only, until_dead
from support.switchboard import HELLO, Switchboard, within_bound
from treadle.folders import Folders
from treadle.process import record as records
from treadle.process import started
from treadle.process.census import MARK_VARIABLE, look_at
from treadle.process.child import Child
from treadle.process.left import reap_left
from treadle.process.reaper import Reaper
from treadle.process.record import FORMAT, SUFFIX, boot_id
from treadle.process.telling import begun, ended
from treadle.process.tree import Tree
from treadle.runtime.runtime import Runtime

pytestmark = linux_only

MARK = "5" * 32
OTHER_MARK = "6" * 32

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + HELLO

# A daemon in small, that records: it starts a child, says who its reaper is, and hangs.
RECORDS = """
import asyncio, os, pathlib, sys
from treadle.process.child import Child
from treadle.process.reaper import REAPER
async def main():
    REAPER.record_in(pathlib.Path(sys.argv[1]))
    await Child.start([sys.executable, "-I", "-S", "-c", sys.argv[2]], env=os.environ)
    print(REAPER._process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "processes"


async def kill_with_reaper(folder: Path, code: str, board: Switchboard, family: int) -> None:
    """Have a daemon start a family, and kill it and its reaper in one moment."""
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RECORDS, str(folder), code),
        env={**os.environ, "PORT": str(board.port)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert daemon.stdout is not None
    await board.called(family)
    reaper = int(await within_bound(daemon.stdout.readline()))
    os.kill(reaper, signal.SIGSTOP)
    daemon.kill()
    os.kill(reaper, signal.SIGKILL)
    await within_bound(daemon.wait())
    await until_dead(reaper)


@asynccontextmanager
async def stranger(mark: str = "") -> AsyncIterator[tuple[int, int]]:
    """Give a process that no daemon has started, in a group of its own: its pid and its start."""
    process = await asyncio.create_subprocess_exec(
        *("/bin/sleep", "600"),
        env={MARK_VARIABLE: mark} if mark else {},
        start_new_session=True,
    )
    seen = look_at(process.pid)
    assert seen is not None
    try:
        yield process.pid, seen.began
        if process.returncode is None:
            process.kill()
    finally:
        await within_bound(process.wait())


def write(folder: Path, text: str, name: str = "x") -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{name}{SUFFIX}"
    path.write_text(text)
    path.chmod(0o600)
    return path


def inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def head() -> str:
    return f"{FORMAT} {boot_id()}\n"


async def test_all_that_a_daemon_left_which_was_killed_with_its_reaper_is_ended(
    switchboard: Switchboard, folder: Path
) -> None:
    rest = f"{DEAF}time.sleep(600)"
    code = (
        # One in the group that carries no mark, and one that left the group and does.
        f"{DEAF}bare = {{'PORT': os.environ['PORT']}}\n"
        f"argv = [sys.executable, '-I', '-S', '-c', {rest!r}]\n"
        "subprocess.Popen(argv, env=bare)\nsubprocess.Popen(argv, start_new_session=True)\n"
        "time.sleep(600)"
    )
    await kill_with_reaper(folder, code, switchboard, 3)
    pids = set(switchboard.ended)
    assert not any(switchboard.ended[pid].is_set() for pid in pids)

    assert await asyncio.to_thread(reap_left, folder) == 3
    await switchboard.dead(*pids)
    assert inside(folder) == []
    assert await asyncio.to_thread(reap_left, folder) == 0


async def test_a_runtime_ends_what_another_left_and_leaves_no_record_itself(
    switchboard: Switchboard, folder: Path, tmp_path: Path
) -> None:
    await kill_with_reaper(folder, f"{DEAF}time.sleep(600)", switchboard, 1)
    (pid,) = switchboard.ended
    theirs = set(inside(folder))
    before = asyncio.all_tasks()
    data = folder.parent
    runtime = Runtime(Folders(data, tmp_path / "config", tmp_path / "cache", tmp_path / "logs"))
    await switchboard.dead(pid)
    child = await Child.start(["/bin/cat"], env={})
    (ours,) = set(inside(folder)) - theirs
    await child.stop()
    await runtime.close()
    assert not ours.exists()
    assert inside(folder) == []
    assert {task for task in asyncio.all_tasks() - before if not task.done()} == set()


async def test_what_a_living_daemon_runs_is_left_alone_and_its_record_private(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Reaper()
    monkeypatch.setattr(started, "REAPER", ours)
    ours.record_in(folder)
    ours.record_in(folder)
    assert inside(folder.parent) == []
    child = await Child.start(["/bin/cat"], env={})
    (path,) = inside(folder)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, path)] == [0o700, 0o600]
    assert path.read_text().splitlines()[0] == head().strip()

    assert await asyncio.to_thread(reap_left, folder) == 0
    assert child.exit_code is None
    ours.stop_recording(folder)
    assert path.exists()
    await within_bound(child.stop())
    assert inside(folder) == []
    ours.stop_recording(folder)
    await _end(ours)


async def test_a_record_that_has_grown_is_written_anew_with_what_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RENEW_BYTES", 400)
    ours = Reaper()
    ours.record_in(folder)
    stays = Tree(2**22 + 1, MARK, 7)
    ours.watch(stays)
    (first,) = inside(folder)
    for number in range(20):
        passing = Tree(2**22 + 2, f"{number:032x}", 8)
        ours.watch(passing)
        ours.forget(passing)
    (path,) = inside(folder)
    assert path != first
    assert path.stat().st_size <= 400
    assert path.read_text().startswith(head() + begun(stays))
    ours.forget(stays)
    assert inside(folder) == []


async def test_a_folder_that_cannot_be_made_stops_nobody_and_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    ours = Reaper()
    monkeypatch.setattr(started, "REAPER", ours)
    ours.record_in(in_the_way / "processes")
    for _ in range(2):
        child = await Child.start(["/bin/cat"], env={})
        assert (await within_bound(child.stop())).exit_code == 0
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 1
    assert await asyncio.to_thread(reap_left, in_the_way / "processes") == 0
    await _end(ours)


async def test_a_stranger_that_got_a_recorded_pid_is_left_alone(folder: Path) -> None:
    async with stranger() as (pid, began):
        path = write(folder, head() + begun(Tree(pid, MARK, began - 1)))
        assert await asyncio.to_thread(reap_left, folder) == 0
        assert look_at(pid) is not None
        assert not path.exists()


async def test_who_carries_a_recorded_mark_or_has_pid_and_start_is_ended(folder: Path) -> None:
    async with stranger(MARK) as (marked, _), stranger() as (pid, began):
        write(folder, head() + begun(Tree(0, MARK)), "one")
        write(folder, head() + begun(Tree(pid, OTHER_MARK, began)), "two")
        assert await asyncio.to_thread(reap_left, folder) == 2
        await until_dead(marked)
        await until_dead(pid)
        assert inside(folder) == []


async def test_what_had_ended_or_is_of_another_run_of_the_machine_is_left_alone(
    folder: Path,
) -> None:
    async with stranger(MARK) as (pid, began):
        tree = Tree(pid, MARK, began)
        write(folder, head() + begun(tree) + ended(tree), "ended")
        write(folder, f"{FORMAT} another-run\n" + begun(tree), "before")
        write(folder, "", "empty")
        assert await asyncio.to_thread(reap_left, folder) == 0
        assert look_at(pid) is not None
        assert inside(folder) == []


async def test_files_that_are_no_records_are_left_alone_and_harm_nobody(
    folder: Path, tmp_path: Path
) -> None:
    async with stranger(MARK) as (pid, began):
        good = head() + begun(Tree(pid, MARK, began))
        write(folder, "\0\xff" * 500, "garbage")
        write(folder, good + "\0" * (2 << 20), "huge")
        write(folder, good, "open-to-all").chmod(0o666)
        os.link(write(tmp_path, good, "twice"), folder / f"twice{SUFFIX}")
        (folder / f"link{SUFFIX}").symlink_to(write(tmp_path, good, "elsewhere"))
        os.mkfifo(folder / f"pipe{SUFFIX}")
        (folder / f"folder{SUFFIX}").mkdir()
        write(folder, good).rename(folder / "of-another-name")
        before = inside(folder)

        assert await asyncio.to_thread(reap_left, folder) == 0
        assert look_at(pid) is not None
        assert inside(folder) == before
        (tmp_path / "linked").symlink_to(folder)
        assert await asyncio.to_thread(reap_left, tmp_path / "linked") == 0


async def test_a_torn_record_names_those_whose_lines_are_whole(folder: Path) -> None:
    async with stranger(MARK) as (marked, _), stranger(OTHER_MARK) as (other, _):
        write(folder, head() + begun(Tree(0, MARK)) + begun(Tree(0, OTHER_MARK))[:-3])
        assert await asyncio.to_thread(reap_left, folder) == 1
        await until_dead(marked)
        assert look_at(other) is not None


async def test_a_tree_that_the_new_daemon_is_part_of_is_left_alone_with_its_record(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK_VARIABLE, f"{OTHER_MARK},{MARK}")
    async with stranger(MARK) as (pid, began):
        path = write(folder, head() + begun(Tree(pid, MARK, began)))
        assert await asyncio.to_thread(reap_left, folder) == 0
        assert look_at(pid) is not None
        assert path.exists()


async def _end(reaper: Reaper) -> None:
    """Let a reaper's process go, as the end of its daemon does."""
    process = reaper._process
    assert process is not None and process.stdin is not None
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, 10) == 0
