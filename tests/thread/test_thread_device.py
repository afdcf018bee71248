"""What was written reaches the device, or the thread says that it does not."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from support.disk import Disk, open_files
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.thread import device, files
from treadle.thread.message import Message, Usage
from treadle.thread.replay import load
from treadle.thread.thread import Thread


async def test_the_end_of_a_turn_waits_for_the_device_and_tells_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flushed, told = tmp_path / "a.jsonl", list[bytes](), list[str]()
    thread = Thread.open(path)
    thread.watch_storage(lambda: told.append(thread.storage))

    def watched(descriptor: int) -> None:
        flushed.append(path.read_bytes())
        if len(flushed) == 2:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "sync", watched)
    thread.start_turn()
    await thread.end_turn("end_turn", Usage(), 0)
    assert (flushed, told) == ([path.read_bytes()], [])

    thread.start_turn()
    await thread.end_turn("end_turn", Usage(), 0)
    assert (told, load(path).unfinished) == (["degraded"], None)
    await thread.recover()
    assert told == ["degraded", "ok"]
    assert flushed[2] == path.read_bytes()
    thread.close()


async def test_what_a_flush_could_not_put_on_the_device_is_written_once_more_in_its_place(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, results = tmp_path / "a.jsonl", [None, OSError(5, "Input/output error"), None]

    def sync(descriptor: int) -> None:
        if (result := results.pop(0)) is not None:
            raise result

    thread = Thread.open(path)
    monkeypatch.setattr(files, "sync", sync)
    for text in ("flushed", "not flushed"):
        thread.start_turn()
        await thread.append(Message("user", text))
        await thread.end_turn("end_turn", Usage(), 0)
    whole = path.read_bytes()
    await thread.recover()

    # The kernel believes that it is written, and would flush nothing.
    assert disk.written[-1][1] == b"".join(whole.splitlines(keepends=True)[-3:])
    assert (thread.storage, path.read_bytes()) == ("ok", whole)
    assert thread.start_turn() == 3
    thread.close()


async def test_a_device_that_never_answers_is_given_up_and_heard_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(files, "sync", lambda descriptor: go_on.wait(PATIENCE_SECONDS))
    monkeypatch.setattr(device, "FLUSH_TIMEOUT_SECONDS", 0.01)
    thread = Thread.open(tmp_path / "a.jsonl")

    thread.start_turn()
    await thread.end_turn("end_turn", Usage(), 0)
    assert thread.storage == "degraded"
    go_on.set()
    await until_seen(lambda: thread.storage == "ok")
    thread.close()


async def test_a_flush_that_is_cancelled_or_outlived_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, entered = threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        os.fstat(descriptor)

    thread = Thread.open(tmp_path / "a.jsonl")
    monkeypatch.setattr(files, "sync", slow)
    thread.start_turn()
    ending = asyncio.create_task(thread.end_turn("end_turn", Usage(), 0))
    assert await asyncio.to_thread(entered.wait, PATIENCE_SECONDS)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    thread.close()
    go_on.set()

    await until_seen(lambda: open_files(tmp_path) == 0)


def test_a_new_file_and_its_folders_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = list[str](), os.fsync

    def watched(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    for _ in range(2):
        Thread.open(tmp_path / "b" / "c" / "a.jsonl").close()

    assert synced == [str(tmp_path), str(tmp_path / "b"), str(tmp_path / "b" / "c")]


def test_a_system_without_fdatasync_flushes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", synced.append)
    files.sync(7)

    assert synced == [7]
