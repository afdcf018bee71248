"""Lines on the way to the file: written once, in order, and seen there before anything is told."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
from pathlib import Path

import pytest

from support.disk import Disk, open_files
from support.waiting import PATIENCE_SECONDS
from treadle.errors import StorageDegraded, ThreadUnreadable
from treadle.thread import files, line_writer
from treadle.thread.loaded import LoadReport
from treadle.thread.lock import holder
from treadle.thread.message import Message, Usage, encode_line
from treadle.thread.records import ThreadRecord
from treadle.thread.replay import load
from treadle.thread.thread import Thread

FAULTS = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENODEV]


async def test_each_line_is_one_write_on_one_descriptor(tmp_path: Path, disk: Disk) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    for _ in range(2):
        thread.start_turn()
        await thread.append(Message("user", "x" * 100_000))
        await thread.append(Message("assistant", "hello"))
        await thread.end_turn("end_turn", Usage(), 1)

    lines = (tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    assert [data for _, data in disk.written] == lines
    assert len(lines) == 9
    assert len({descriptor for descriptor, _ in disk.written}) == 1
    thread.close()


async def test_a_write_that_the_system_takes_in_pieces_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, real = Thread.open(tmp_path / "a.jsonl"), os.write
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", lambda descriptor, data: real(descriptor, data[:7]))
        said = await thread.append(Message("user", "in pieces"))

    assert load(tmp_path / "a.jsonl").messages == [said]
    thread.close()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_thread_that_cannot_be_written_goes_on_and_is_written_when_it_can(
    tmp_path: Path, disk: Disk, fault: int
) -> None:
    path, told = tmp_path / "a.jsonl", list[str]()
    thread = Thread.open(path)
    thread.watch_storage(lambda: told.append(thread.storage))
    said = [await thread.append(Message("user", "hi"))]
    before = path.read_bytes()

    with disk.failing(fault, takes=10):
        thread.start_turn()
        assert told == ["degraded"]
        said.append(await thread.append(Message("user", "nobody writes this")))
        await thread.end_turn("end_turn", Usage(), 1)
        assert path.read_bytes() == before
        assert thread.messages == said

    thread.start_turn()
    assert told == ["degraded", "ok"]
    said.append(await thread.append(Message("user", "and on")))
    await thread.end_turn("end_turn", Usage(), 1)
    thread.close()
    loaded = load(path)
    assert loaded.messages == thread.messages == said
    assert (loaded.report, loaded.turns, loaded.unfinished) == (LoadReport(), 2, None)


async def test_a_disk_of_the_kernel_that_is_full_is_no_other(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of files are a thing of Unix")
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        said = await thread.append(Message("user", "x" * 100))
        assert (thread.storage, path.read_bytes()) == ("degraded", before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    await thread.recover()

    assert (thread.storage, load(path).messages) == ("ok", [said])
    thread.close()


async def test_half_a_line_that_could_not_be_cut_off_is_cut_before_the_next_one(
    tmp_path: Path, disk: Disk
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    before = path.read_bytes()

    disk.can_cut = False
    said = []
    for takes in (10, 7):
        with disk.failing(errno.EIO, takes):
            said.append(await thread.append(Message("user", "x" * takes)))
    assert path.read_bytes() == before + encode_line(said[0])[:10]

    disk.can_cut = True
    said.append(await thread.append(Message("user", "hi")))
    assert load(path).messages == said
    assert load(path).report == LoadReport()
    thread.close()


async def test_what_somebody_wrote_after_half_a_line_is_not_cut_with_it(
    tmp_path: Path, disk: Disk
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    disk.can_cut = False
    with disk.failing(errno.EIO, takes=10):
        await thread.append(Message("user", "one"))
    edited = path.read_bytes()[:-10] + encode_line(Message("user", "edited")) + b"\n"
    path.write_bytes(edited)
    disk.can_cut = True
    await thread.append(Message("user", "two"))

    assert [message.text for message in load(path).messages] == ["edited", "one", "two"]
    thread.start_turn()
    assert [message.text for message in thread.messages] == ["edited", "one", "two"]
    thread.close()


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_fails_and_when_each_line_is_written_once_and_in_order(
    tmp_path: Path, disk: Disk, seed: int
) -> None:
    chance = random.Random(seed)
    thread = Thread.open(tmp_path / "a.jsonl")
    said = []
    for number in range(40):
        disk.can_cut = chance.random() < 0.7
        disk.error = chance.choice([None, None, errno.ENOSPC, errno.EIO])
        disk.takes = chance.choice([0, 0, 1, 20, 60])
        said.append(await thread.append(Message("user", f"{number} " + "x" * chance.randrange(50))))
        if chance.random() < 0.2:
            await thread.recover()
        assert (
            load(tmp_path / "a.jsonl").messages == said[: len(load(tmp_path / "a.jsonl").messages)]
        )
    disk.can_cut, disk.error = True, None
    await thread.recover()

    assert (thread.storage, thread.messages) == ("ok", said)
    assert load(tmp_path / "a.jsonl").messages == said
    assert load(tmp_path / "a.jsonl").report == LoadReport()
    thread.close()


async def test_lines_that_come_while_others_are_caught_up_keep_their_place(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writing, go_on = tmp_path / "a.jsonl", threading.Event(), threading.Event()
    thread = Thread.open(path)
    with disk.failing(errno.ENOSPC):
        said = [await thread.append(Message("user", str(number))) for number in range(3)]

    def slowly(descriptor: int, data: bytes) -> int:
        writing.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return disk.write(descriptor, data)

    monkeypatch.setattr(files, "write", slowly)
    recovering = asyncio.create_task(thread.recover())
    assert await asyncio.to_thread(writing.wait, PATIENCE_SECONDS)
    said.append(await thread.append(Message("user", "meanwhile")))
    go_on.set()
    await recovering

    assert (thread.storage, load(path).messages) == ("ok", said)
    thread.close()


async def test_a_new_thread_without_room_is_made_when_there_is_some(
    tmp_path: Path, disk: Disk
) -> None:
    path = tmp_path / "a.jsonl"
    with disk.failing(errno.ENOSPC, takes=10):
        thread = Thread.open(path, agent="inbox", instance="mac")
        thread.start_turn()
        said = [await thread.append(Message("user", "hi"))]
        assert (thread.storage, path.read_bytes()) == ("degraded", b"")
    said.append(await thread.append(Message("assistant", "hello")))

    loaded = load(path)
    assert loaded.messages == thread.messages == said
    assert loaded.header == ThreadRecord(
        1, "inbox", "mac", loaded.header.created if loaded.header else ""
    )
    assert (thread.storage, thread.report, holder(path)) == ("ok", LoadReport(), os.getpid())
    thread.close()


def test_a_new_thread_in_which_nothing_was_said_leaves_nothing_behind(
    tmp_path: Path, disk: Disk, elsewhere: Path
) -> None:
    with disk.failing(errno.ENOSPC):
        Thread.open(tmp_path / "a.jsonl").close()

    assert not elsewhere.exists()
    assert holder(tmp_path / "a.jsonl") is None


async def test_so_much_may_wait_and_a_turn_that_runs_still_ends(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_writer, "BACKLOG_BYTES", 1000)
    thread = Thread.open(tmp_path / "a.jsonl")
    with disk.failing(errno.ENOSPC):
        thread.start_turn()
        said = [await thread.append(Message("user", "x" * 400)) for _ in range(5)]
        await thread.end_turn("end_turn", Usage(), 1)
        with pytest.raises(StorageDegraded, match="wait to be written"):
            thread.start_turn()

    assert thread.start_turn() == 2
    assert load(tmp_path / "a.jsonl").messages == thread.messages == said
    thread.close()


async def test_what_waits_goes_to_the_file_that_took_the_place_of_the_one_that_failed(
    tmp_path: Path, disk: Disk
) -> None:
    path, other = tmp_path / "a.jsonl", tmp_path / "other"
    thread = Thread.open(path)
    said = [await thread.append(Message("user", "hi"))]
    with disk.failing(errno.EIO):
        said.append(await thread.append(Message("assistant", "hello")))
        other.write_bytes(path.read_bytes())
        other.replace(path)
        thread.start_turn()
    await thread.recover()

    assert (thread.storage, load(path).messages) == ("ok", said)
    assert open_files(tmp_path) == 2  # the thread and its lock
    thread.close()


async def test_a_thread_deleted_while_it_waits_is_deleted(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    with disk.failing(errno.ENOSPC):
        await thread.append(Message("user", "forget me"))
        path.unlink()
        thread.start_turn()
        said = await thread.append(Message("user", "hi"))
        assert (thread.storage, thread.messages) == ("degraded", [said])
    await thread.recover()

    assert (thread.storage, load(path).messages) == ("ok", [said])
    thread.close()


def test_a_path_that_can_never_be_a_thread_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "a.jsonl", tmp_path / ("x" * 300) / "a.jsonl"):
        with pytest.raises(ThreadUnreadable):
            Thread.open(path)
