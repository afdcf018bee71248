"""Lines that lie elsewhere because they could not be written: no copy, and no look, lacks them."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from threading import Timer

import pytest

from support.disk import Disk
from support.waiting import PATIENCE_SECONDS
from treadle.errors import StorageDegraded, ThreadExists
from treadle.thread import unsaved
from treadle.thread.fork import fork
from treadle.thread.lock import ThreadLock
from treadle.thread.message import Message
from treadle.thread.opening import take
from treadle.thread.paths import thread_path
from treadle.thread.replay import load
from treadle.thread.thread import Thread
from treadle.thread.transfer import import_file
from treadle.thread.verify import Finding, Repaired, repair, verify

HI = b'{"role":"user","content":"hi"}\n'
MORE = b'{"role":"assistant","content":"more"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A thread with a line in its file, and one elsewhere."""
    path = thread_path(tmp_path / "data", "a", "x")
    Thread.open(path, agent="a", instance="x").close()
    with path.open("ab") as file:
        file.write(HI)
    keep(path, MORE)
    return path


def keep(path: Path, lines: bytes) -> Path:
    size_bytes = path.stat().st_size if path.exists() else 0
    return unsaved.keep(path, size_bytes, lines, {}).place


def texts(path: Path) -> list[str]:
    return [message.text for message in load(path).messages]


def test_a_copy_has_what_lay_elsewhere_of_its_source(path: Path, elsewhere: Path) -> None:
    target = path.with_name("y.jsonl")
    assert fork(path, target).messages == 2
    assert texts(target) == texts(path) == ["hi", "more"]
    assert list(elsewhere.iterdir()) == []


def test_a_source_that_somebody_holds_is_copied_as_it_stands(path: Path) -> None:
    lock = ThreadLock.acquire(path)
    assert fork(path, path.with_name("y.jsonl")).messages == 1
    lock.release()


def test_no_copy_is_made_while_its_source_cannot_be_whole(path: Path, disk: Disk) -> None:
    disk.only = "x.jsonl"
    with disk.failing(errno.ENOSPC), pytest.raises(StorageDegraded):
        fork(path, path.with_name("y.jsonl"))
    assert [each.name for each in path.parent.iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("door", ["fork", "import"])
def test_a_thread_of_which_all_lies_elsewhere_is_there_already(
    path: Path, tmp_path: Path, door: str
) -> None:
    target = path.with_name("y.jsonl")
    keep(target, HI + MORE)
    source = tmp_path / "in.jsonl"
    source.write_bytes(HI)

    with pytest.raises(ThreadExists):
        fork(path, target) if door == "fork" else import_file(source, target)

    assert texts(target) == ["hi", "more"]


def test_what_was_deleted_does_not_come_back_with_the_next_of_its_name(
    path: Path, tmp_path: Path
) -> None:
    target = path.with_name("y.jsonl")
    keep(target, HI + MORE)
    target.with_suffix(".deleting").write_bytes(HI)
    source = tmp_path / "in.jsonl"
    source.write_bytes(HI)

    assert import_file(source, target).messages == 1
    assert texts(target) == ["hi"]


def test_verify_tells_of_it_and_repair_brings_it_back(path: Path, tmp_path: Path) -> None:
    data, other = tmp_path / "data", path.with_name("y.jsonl")
    gone = thread_path(data, "a", "z" * 150)
    [place] = unsaved.find(path)
    header = b'{"thread":{"version":1,"agent":"a","instance":"%s"}}\n' % (b"z" * 150)
    whole = keep(gone, header + HI)
    other.write_bytes(HI)
    strange = keep(other, MORE)
    other.unlink()
    keep(tmp_path / "other data" / "threads" / "a" / "x.jsonl", HI)
    broken = place.with_name("broken.jsonl")
    broken.write_bytes(b"no json\n")

    found = {(one.path, one.kind, one.detail, one.is_mendable) for one in verify(data)}

    told = "its last {} could not be written: {}"
    assert found == {
        (path, "unsaved", told.format("1 line", place), True),
        (gone, "unsaved", told.format("2 lines", whole), True),
        (strange, "unsaved", f"1 line of an earlier thread {other}, which is gone", False),
    }
    assert sorted(repair(data), key=lambda one: one.path) == [Repaired(path), Repaired(gone)]
    assert texts(path) == ["hi", "more"]
    assert texts(gone) == ["hi"]
    assert [one.path for one in verify(data)] == [strange]
    assert broken.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_in_the_place_of_a_thread_holds_nobody_up(path: Path) -> None:
    for place in unsaved.find(path):
        place.unlink()
    path.unlink()
    os.mkfifo(path)
    # Whoever waits for somebody to write into the pipe is let go after a while, and fails.
    patience = Timer(PATIENCE_SECONDS, lambda: os.close(os.open(path, os.O_WRONLY)))
    patience.start()
    kept = unsaved.keep(path, len(HI), MORE, {})
    strange = unsaved.bring_back(path)
    assert patience.is_alive()
    patience.cancel()
    assert MORE in kept.place.read_bytes()
    assert strange == [kept.place]


@pytest.mark.skipif(sys.platform == "win32", reason="nothing limits open files there")
def test_a_process_without_open_files_left_says_so_whatever_lies_elsewhere(path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(StorageDegraded, match="Too many open files"):
            take(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    take(path).release()
    assert texts(path) == ["hi", "more"]


def test_verify_of_a_folder_without_threads_looks_elsewhere_too(tmp_path: Path) -> None:
    path = thread_path(tmp_path / "data", "a", "x")
    keep(path, HI)
    [found] = verify(tmp_path / "data")
    assert found == Finding(path, "unsaved", found.detail, is_mendable=True)
    assert load(path).messages == []
    assert list(repair(tmp_path / "data")) == [Repaired(path)]
    assert load(path).messages == [Message("user", "hi")]
