"""Flushes: sessions that end together wait side by side, for no longer than it takes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.disk import open_files
from support.waiting import PATIENCE_SECONDS, until_seen, until_threads_end
from treadle.thread import files
from treadle.thread.flush import FLUSHES_AT_ONCE, Flusher


class Device:
    """A device that flushes when it is told, and counts what it does."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        self.flushed: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self._lock = threading.Lock()
        patch.setattr(files, "sync", self.sync)

    def sync(self, descriptor: int) -> None:
        """Flush a file once the device goes on."""
        with self._lock:
            self.flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.go_on.wait(PATIENCE_SECONDS)
        with self._lock:
            self.at_once -= 1


@contextmanager
def opened(folder: Path, count: int) -> Iterator[list[int]]:
    """Open some files."""
    descriptors = [
        os.open(folder / f"{number:02}", os.O_CREAT | os.O_RDWR) for number in range(count)
    ]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def wait_for(flushes: list[Future[None]]) -> None:
    for flush in flushes:
        flush.result(PATIENCE_SECONDS)


async def test_those_who_come_while_the_device_works_wait_in_order_and_once_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, flusher = Device(monkeypatch), Flusher()
    with opened(tmp_path, 20) as descriptors:
        flushes = [flusher.flush(descriptor) for descriptor in descriptors]
        await until_seen(lambda: len(device.flushed) == FLUSHES_AT_ONCE)
        again = [flusher.flush(descriptor) for descriptor in descriptors]
        # What is under way may miss what was written since; what still waits does not.
        assert [one is two for one, two in zip(flushes, again, strict=True)] == (
            [False] * FLUSHES_AT_ONCE + [True] * (20 - FLUSHES_AT_ONCE)
        )
    device.go_on.set()
    await asyncio.to_thread(wait_for, flushes + again)
    await until_threads_end("treadle-flush")

    names = [f"{number:02}" for number in range(20)]
    assert sorted(device.flushed[:FLUSHES_AT_ONCE]) == names[:FLUSHES_AT_ONCE]
    assert sorted(device.flushed) == sorted(names + names[:FLUSHES_AT_ONCE])
    assert set(device.flushed[-FLUSHES_AT_ONCE * 2 :]) >= set(names[:FLUSHES_AT_ONCE])
    assert device.most_at_once == FLUSHES_AT_ONCE
    assert open_files(tmp_path) == 0


async def test_a_flush_that_fails_is_told_to_its_own_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "01":
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "sync", sync)
    with opened(tmp_path, 3) as descriptors:
        flushes = [Flusher().flush(descriptor) for descriptor in descriptors]
        errors = [await asyncio.to_thread(flush.exception, PATIENCE_SECONDS) for flush in flushes]

    assert [str(error) for error in errors] == ["None", "[Errno 5] Input/output error", "None"]


async def test_a_device_that_hangs_holds_up_nobody_on_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, flusher, real = Device(monkeypatch), Flusher(), os.fstat
    with opened(tmp_path, 12) as descriptors:
        hung = [flusher.flush(descriptor) for descriptor in descriptors[:-1]]
        await until_seen(lambda: len(device.flushed) == FLUSHES_AT_ONCE)

        class Elsewhere:
            st_dev, st_ino = 0, 1

        monkeypatch.setattr(os, "fstat", lambda descriptor: Elsewhere)
        monkeypatch.setattr(files, "sync", lambda descriptor: None)
        await asyncio.to_thread(flusher.flush(descriptors[-1]).result, PATIENCE_SECONDS)
        monkeypatch.setattr(os, "fstat", real)
        assert not any(flush.done() for flush in hung)
        device.go_on.set()
        await asyncio.to_thread(wait_for, hung)


def test_without_any_thread_a_flush_fails_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    flusher = Flusher()
    with opened(tmp_path, 1) as [descriptor]:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(OSError, match="no thread"):
                flusher.flush(descriptor)
        assert open_files(tmp_path) == 1
        flusher.flush(descriptor).result(PATIENCE_SECONDS)
