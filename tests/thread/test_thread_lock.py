"""One writer per thread, across processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from support.disk import open_files
from support.process import patience_with
from treadle.errors import ThreadLocked, ThreadUnreadable
from treadle.thread import lock as module
from treadle.thread.lock import ThreadLock, holder
from treadle.thread.message import Usage
from treadle.thread.thread import Thread

# Takes a lock for each path it is told, says how that went, and lets go at the next line.
RIVAL = """
import sys
from pathlib import Path
from treadle.errors import ThreadLocked
from treadle.thread.lock import ThreadLock

for line in sys.stdin:
    lock = None
    try:
        lock = ThreadLock.acquire(Path(line.rstrip()))
        print("won", flush=True)
    except ThreadLocked as error:
        print(error.data.get("pid"), flush=True)
    sys.stdin.readline()
    if lock:
        lock.release()
    print("done", flush=True)
"""


class Rival:
    """A process that locks what it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RIVAL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, line: object) -> None:
        _pipe(self.process.stdin).write(f"{line}\n")
        _pipe(self.process.stdin).flush()

    def hears(self) -> str:
        return _pipe(self.process.stdout).readline().rstrip()

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)


@pytest.fixture
def rivals() -> Iterator[tuple[Rival, Rival]]:
    pair = (Rival(), Rival())
    with patience_with(pair[0].process), patience_with(pair[1].process):
        yield pair
    for rival in pair:
        rival.stop()


def test_of_two_processes_that_race_exactly_one_wins_each_time(
    rivals: tuple[Rival, Rival], tmp_path: Path
) -> None:
    for number in range(50):
        # Every other round, the file that the round before fought over.
        path = tmp_path / f"{number // 2}.jsonl"
        for rival in rivals:
            rival.tell(path)
        outcomes = [rival.hears() for rival in rivals]
        winner = outcomes.index("won")

        assert outcomes[1 - winner] == str(rivals[winner].process.pid)
        assert holder(path) == rivals[winner].process.pid
        for rival in rivals:
            rival.tell("let go")
            assert rival.hears() == "done"
    assert list(tmp_path.glob("*.lock")) == []


def test_a_second_opener_is_told_who_holds_the_thread_and_what_to_do(
    rivals: tuple[Rival, Rival], tmp_path: Path
) -> None:
    rival, path = rivals[0], tmp_path / "a.jsonl"
    rival.tell(path)
    assert rival.hears() == "won"

    with pytest.raises(ThreadLocked) as caught:
        ThreadLock.acquire(path)

    assert caught.value.data == {"pid": rival.process.pid}
    assert str(rival.process.pid) in caught.value.message
    assert "stop that process" in caught.value.message


def test_a_process_that_was_killed_holds_nothing(
    rivals: tuple[Rival, Rival], tmp_path: Path
) -> None:
    rival, path = rivals[0], tmp_path / "a.jsonl"
    rival.tell(path)
    assert rival.hears() == "won"
    rival.stop()

    assert (tmp_path / "a.lock").read_text() == f"{rival.process.pid}\n"
    assert holder(path) is None
    ThreadLock.acquire(path).release()


def test_the_same_process_cannot_open_a_thread_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    (tmp_path / "link.jsonl").symlink_to(path)
    lock = ThreadLock.acquire(path)

    for name in ("a.jsonl", "link.jsonl"):
        with pytest.raises(ThreadLocked, match="this process") as caught:
            ThreadLock.acquire(tmp_path / name)
        assert caught.value.data == {"pid": os.getpid()}
        assert holder(tmp_path / name) == os.getpid()

    lock.release()
    lock.release()
    assert holder(path) is None
    assert not (tmp_path / "a.lock").exists()


def test_a_lock_file_that_vanishes_while_it_is_being_locked_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, tries = tmp_path / "a.jsonl", module._try_lock, []

    def unlinked_meanwhile(descriptor: int, *, shared: bool = False) -> bool:
        tries.append(descriptor)
        if len(tries) == 1:
            (tmp_path / "a.lock").unlink()
        return real(descriptor, shared=shared)

    monkeypatch.setattr(module, "_try_lock", unlinked_meanwhile)
    lock = ThreadLock.acquire(path)

    assert len(tries) == 2
    assert (tmp_path / "a.lock").read_text() == f"{os.getpid()}\n"
    lock.release()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_lock_file_that_was_deleted_is_made_again_by_its_holder(
    tmp_path: Path, is_replaced: bool
) -> None:
    path, file = tmp_path / "a.jsonl", tmp_path / "a.lock"
    lock = ThreadLock.acquire(path)
    file.unlink()
    if is_replaced:
        file.write_text("1\n")
    assert holder(path) is None

    lock.ensure()

    assert holder(path) == os.getpid()
    assert open_files(tmp_path) == 1
    with pytest.raises(ThreadLocked, match="this process"):
        ThreadLock.acquire(path)
    lock.release()
    assert not file.exists()


async def test_a_second_writer_that_a_deleted_lock_file_let_in_is_noticed_at_the_next_turn(
    rivals: tuple[Rival, Rival], tmp_path: Path
) -> None:
    rival, path = rivals[0], tmp_path / "a.jsonl"
    thread = Thread.open(path)
    thread.start_turn()
    await thread.end_turn("end_turn", Usage(), 0)
    (tmp_path / "a.lock").unlink()
    rival.tell(path)
    assert rival.hears() == "won"

    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(ThreadLocked) as refused:
            thread.start_turn()
        assert refused.value.data == {"pid": rival.process.pid}
    assert path.read_bytes() == before
    rival.tell("let go")
    assert rival.hears() == "done"
    assert thread.start_turn() == 2
    assert holder(path) == os.getpid()
    thread.close()


def test_the_pid_of_a_holder_that_has_just_locked_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, file = tmp_path / "a.jsonl", tmp_path / "a.lock"
    lock = ThreadLock.acquire(path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    file.write_text(f"{dead.pid}\n")
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == module.ATTEMPTS + 2:
            file.write_text(f"{os.getppid()}\n")

    monkeypatch.setattr(module.time, "sleep", pause)
    with pytest.raises(ThreadLocked) as refused:
        ThreadLock.acquire(path)
    assert refused.value.data == {"pid": os.getppid()}
    lock.release()


@pytest.mark.parametrize("fault", ["ENOLCK", "EOPNOTSUPP"])
def test_a_file_system_without_locks_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def refuse(descriptor: int, *, shared: bool = False) -> bool:
        raise OSError(getattr(errno, fault), "No locks")

    monkeypatch.setattr(module, "_try_lock", refuse)
    with pytest.raises(ThreadUnreadable, match=r"has no locks.*local disk") as refused:
        Thread.open(tmp_path / "a.jsonl")
    assert refused.value.data == {"path": str(tmp_path / "a.jsonl")}
    assert open_files(tmp_path) == 0


def test_asking_who_holds_a_thread_makes_nothing(tmp_path: Path) -> None:
    assert holder(tmp_path / "no" / "a.jsonl") is None
    assert list(tmp_path.iterdir()) == []


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
