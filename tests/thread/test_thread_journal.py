"""Disks that fill up or fail: nothing acknowledged is lost, nothing half is left behind."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle.errors import StorageDegraded
from treadle.thread import files
from treadle.thread.journal import Journal
from treadle.thread.lock import holder
from treadle.thread.message import Message, Usage
from treadle.thread.replay import LoadReport, load
from treadle.thread.thread import Thread


@contextmanager
def room_for(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size: the kernel takes the part that fits, then refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_message_that_does_not_fit_was_not_said_and_the_next_one_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    thread.start_turn()
    said = await thread.append(Message("user", "hi"))
    before = path.read_bytes()

    with room_for(len(before) + 10), pytest.raises(StorageDegraded) as caught:
        await thread.append(Message("user", "x" * 100))

    assert caught.value.data == {"path": str(path)}
    assert path.read_bytes() == before
    assert thread.messages == [said]
    more = await thread.append(Message("user", "there is room again"))
    assert load(path).messages == thread.messages == [said, more]
    thread.close()


async def test_half_a_line_that_could_not_be_cut_off_is_cut_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    before = path.read_bytes()

    def broken(descriptor: int, size: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", broken)
        for _ in range(2):
            with room_for(len(before) + 10), pytest.raises(StorageDegraded):
                await thread.append(Message("user", "x" * 100))
    assert len(path.read_bytes()) == len(before) + 10

    said = await thread.append(Message("user", "hi"))
    assert load(path).messages == [said]
    assert load(path).report == LoadReport()
    thread.close()


async def test_a_write_that_the_system_takes_in_pieces_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, real = Thread.open(tmp_path / "a.jsonl"), os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
        said = await thread.append(Message("user", "in pieces"))

    assert load(tmp_path / "a.jsonl").messages == [said]
    thread.close()


def test_a_disk_without_room_for_a_new_thread_says_so_and_keeps_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with room_for(10), pytest.raises(StorageDegraded):
        Thread.open(path)

    assert holder(path) is None
    assert path.read_bytes() == b""
    Thread.open(path).close()


async def test_the_end_of_a_turn_waits_for_the_device_and_tells_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flushed = tmp_path / "a.jsonl", list[bytes]()
    thread = Thread.open(path)

    def watched(descriptor: int) -> None:
        flushed.append(path.read_bytes())
        if len(flushed) == 2:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", watched)
    thread.start_turn()
    await thread.end_turn("end_turn", Usage(), 0)
    assert flushed == [path.read_bytes()]

    thread.start_turn()
    with pytest.raises(StorageDegraded, match="Input/output error"):
        await thread.end_turn("end_turn", Usage(), 0)
    assert load(path).unfinished is None
    thread.close()


async def test_a_flush_that_is_cancelled_or_outlived_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, entered, left = (threading.Event() for _ in range(3))

    def slow(descriptor: int) -> None:
        entered.set()
        go_on.wait(10)
        os.fstat(descriptor)
        left.set()

    monkeypatch.setattr("treadle.thread.journal.sync", slow)
    journal = Journal.open(tmp_path / "a.jsonl")
    before = open_files(tmp_path)
    flush = asyncio.create_task(journal.flush())
    await asyncio.to_thread(entered.wait, 10)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    journal.close()
    go_on.set()
    await asyncio.to_thread(left.wait, 10)

    async with asyncio.timeout(10):
        while open_files(tmp_path):  # noqa: ASYNC110  # a descriptor sets no event
            await asyncio.sleep(0)
    assert before == 1


async def test_a_device_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("treadle.thread.journal.sync", lambda descriptor: go_on.wait(10))
    monkeypatch.setattr("treadle.thread.journal.FLUSH_TIMEOUT_SECONDS", 0.01)
    journal = Journal.open(tmp_path / "a.jsonl")

    with pytest.raises(StorageDegraded, match="does not answer"):
        await journal.flush()
    go_on.set()
    journal.close()


def test_a_journal_notices_that_its_file_is_gone_or_another(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = Journal.open(path)
    assert journal.is_current()

    path.unlink()
    assert not journal.is_current()
    path.touch()
    assert not journal.is_current()
    journal.close()


def test_a_new_file_and_its_folders_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = list[str](), os.fsync

    def watched(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    Journal.open(tmp_path / "b" / "c" / "a.jsonl").close()
    Journal.open(tmp_path / "b" / "c" / "a.jsonl").close()

    assert synced == [str(tmp_path), str(tmp_path / "b"), str(tmp_path / "b" / "c")]


def test_a_system_without_fdatasync_flushes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", synced.append)
    files.sync(7)

    assert synced == [7]


def open_files(folder: Path) -> int:
    """How many files of a folder this process has open."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(entry.readlink())
        except OSError:
            continue
    return sum(link.is_relative_to(folder) for link in links)
