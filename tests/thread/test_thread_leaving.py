"""Attachments and devices that hang when a thread is closed: nothing is lost, nothing doubled."""

# ruff: noqa: ASYNC240 - what lies on the disk is what these tests look at

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from support.disk import Disk, open_files
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.errors import StorageDegraded, ThreadLocked, ThreadUnreadable
from treadle.thread import files, line_writer, unsaved
from treadle.thread.attachments import Attachment, attachment
from treadle.thread.blobs import blobs_folder, check_blobs
from treadle.thread.leaving import losses
from treadle.thread.lock import holder
from treadle.thread.message import Message, Usage
from treadle.thread.replay import load
from treadle.thread.thread import Thread

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def image(data: bytes = PNG) -> Attachment:
    return attachment("image", data, "image/png")


async def said_without_room_for_bytes(path: Path, *blocks: Attachment) -> Thread:
    """Say something whose bytes cannot be written; return the thread."""
    thread = Thread.open(path)
    # A file in the folder's place fails for every user, whatever their rights.
    blobs_folder(path).touch()
    thread.start_turn()
    for block in blocks:
        await thread.append(Message("user", [block]))
    await thread.end_turn("end_turn", Usage(), 1)
    assert thread.storage == "degraded"
    return thread


async def test_attachments_that_only_memory_has_are_kept_with_their_lines_and_come_back(
    tmp_path: Path, elsewhere: Path
) -> None:
    path = tmp_path / "a.jsonl"
    thread = await said_without_room_for_bytes(path, image(), image(b"two" + PNG))
    said = thread.messages[:]
    thread.blobs.hold(Message("user", [image(b"prepared and never said")]))
    with pytest.raises(StorageDegraded, match="lie in") as told:
        thread.close()
    [place] = elsewhere.iterdir()
    assert (told.value.data, stat.S_IMODE(place.stat().st_mode)) == ({"path": str(place)}, 0o600)
    assert b"never said" not in place.read_bytes()

    # While the bytes cannot come back, the lines that refer to them do not either.
    with pytest.raises((StorageDegraded, ThreadUnreadable)):
        Thread.open(path)
    assert place.exists()
    blobs_folder(path).unlink()
    again = Thread.open(path)
    assert again.messages == said
    assert [again.blobs.read(message.content[0]) for message in said] == [PNG, b"two" + PNG]  # type: ignore[arg-type]  # blocks
    assert check_blobs(path, said) == []
    assert list(elsewhere.iterdir()) == []
    again.close()


async def test_attachments_for_which_there_is_no_room_are_named_and_the_lines_kept(
    tmp_path: Path,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, large = tmp_path / "a.jsonl", image(bytes(100_000))
    thread = await said_without_room_for_bytes(path, image(), large)

    def small(descriptor: int, data: bytes | memoryview) -> int:
        """Take no more than fits."""
        if os.fstat(descriptor).st_size + len(data) > 50_000:
            os.write(descriptor, data[:1000])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)

    monkeypatch.setattr(files, "write", small)
    with pytest.raises(StorageDegraded, match="are lost") as told:
        thread.close()
    monkeypatch.undo()
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(elsewhere.parent))
    assert f"{large['sha256']}.png" in told.value.message
    assert image()["sha256"] not in told.value.message
    assert [one.message for one in caplog.records if one.levelno == logging.CRITICAL] == [
        f"LOST: {losses.told[-1]}: No space left on device"
    ]
    blobs_folder(path).unlink()
    again = Thread.open(path)
    assert again.messages == thread.messages
    assert [one.kind for one in check_blobs(path, again.messages)] == ["missing"]
    again.close()


async def test_bytes_that_are_held_count_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    thread = await said_without_room_for_bytes(path, image(bytes(50_000)))
    assert thread.start_turn() == 2
    monkeypatch.setattr(line_writer, "BACKLOG_BYTES", 50_000)
    with pytest.raises(StorageDegraded, match="wait to be written"):
        thread.start_turn()
    blobs_folder(path).unlink()
    assert thread.start_turn() == 3
    thread.close()


class Hanging:
    """A disk that takes so much of the next line, then hangs until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: int = 10**6) -> None:
        self.hangs, self.goes_on = threading.Event(), threading.Event()
        self._takes = takes
        monkeypatch.setattr(files, "write", self._write)
        monkeypatch.setattr(line_writer, "CLOSE_WRITE_SECONDS", 0.05)

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self.hangs.is_set() or not _is_thread(descriptor):
            return os.write(descriptor, data)
        self.hangs.set()
        taken = os.write(descriptor, data[: self._takes]) if self._takes < len(data) else 0
        assert self.goes_on.wait(PATIENCE_SECONDS)
        return taken or os.write(descriptor, data)


def _is_thread(descriptor: int) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").readlink().name == "a.jsonl"


@pytest.mark.parametrize("takes", [10**6, 10])
@pytest.mark.parametrize("is_tried_before", [False, True])
async def test_a_device_that_hangs_holds_up_no_close_and_doubles_no_line(
    tmp_path: Path,
    disk: Disk,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    takes: int,
    is_tried_before: bool,
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    with disk.failing(errno.EIO):
        said = [await thread.append(Message("user", text)) for text in ("one", "two", "three")]
    device = Hanging(monkeypatch, takes)
    trying = asyncio.create_task(thread.recover()) if is_tried_before else None
    if trying:
        assert await asyncio.to_thread(device.hangs.wait, PATIENCE_SECONDS)
    with pytest.raises(StorageDegraded, match=r"the last 3 lines .* lie in .*does not answer"):
        await asyncio.to_thread(thread.close)
    thread.close()
    # Until it is known what becomes of the line that hangs, nobody else may write.
    with pytest.raises(ThreadLocked):
        Thread.open(path)

    device.goes_on.set()
    await until_seen(lambda: holder(path) is None)
    if trying:
        await trying
    assert open_files(tmp_path) == 0
    again = Thread.open(path)
    assert again.messages == said
    assert path.read_bytes().count(b'"one"') == 1
    assert list(elsewhere.iterdir()) == []
    again.close()


@pytest.mark.parametrize("written", [0, 1, 2, 3])
@pytest.mark.parametrize("before", [b"", b"\n"])
@pytest.mark.parametrize("after", [b"", b'{"role":"user","content":"edited"}\n'])
def test_lines_that_are_there_already_come_back_once(
    tmp_path: Path, written: int, before: bytes, after: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(first := b'{"thread":{"version":1}}\n')
    lines = [b'{"role":"user","content":"%d"}\n' % number for number in range(3)]
    unsaved.keep(path, len(first), b"".join(lines), {})
    there = before + b"".join(lines[:written]) + after if written else after
    path.write_bytes(first + there)

    assert unsaved.bring_back(path) == []
    loaded = load(path)
    assert sorted(one.text for one in loaded.messages) == ["0", "1", "2", *["edited"] * bool(after)]
    assert loaded.report.quarantined_lines == 0
    assert [one.text for one in loaded.messages if one.text != "edited"] == ["0", "1", "2"]
