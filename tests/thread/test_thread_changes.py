"""Rewinds and compactions reach the device; what a deleted thread left goes when it begins anew."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support.disk import Disk
from treadle import secrets
from treadle.errors import StorageDegraded
from treadle.thread import files
from treadle.thread.attachments import attachment
from treadle.thread.blobs import blobs_folder, check_blobs
from treadle.thread.message import Message, Usage
from treadle.thread.records import CompactedRecord, Note
from treadle.thread.replay import load
from treadle.thread.thread import Thread

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """A value that is a secret as long as a test runs."""
    monkeypatch.setattr(secrets, "_names", ())
    monkeypatch.setenv("MAIL_KEY", "hunter2hunter2")
    secrets.hold("MAIL_KEY")
    return "hunter2hunter2"


async def talk(thread: Thread, *texts: str) -> None:
    thread.start_turn()
    for text in texts:
        await thread.append(Message("user", text))
    await thread.end_turn("end_turn", Usage(), 1)


async def test_a_rewind_and_a_compaction_are_on_the_device_when_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flushed = tmp_path / "a.jsonl", list[bytes]()
    thread = Thread.open(path)
    await talk(thread, "one", "two", "three")
    monkeypatch.setattr(files, "sync", lambda descriptor: flushed.append(path.read_bytes()))

    await thread.record_compaction(CompactedRecord(through=1, summary="we spoke"))
    assert flushed == [path.read_bytes()]
    await thread.rewind(0)
    assert flushed[1:] == [path.read_bytes()]
    await thread.rewind(0)
    assert len(flushed) == 2
    thread.close()


async def test_a_device_that_fails_a_rewind_makes_the_storage_degraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "a.jsonl", list[str]()
    thread = Thread.open(path)
    thread.watch_storage(lambda: told.append(thread.storage))
    await talk(thread, "one", "two")

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(files, "sync", fail)
        assert await thread.rewind(0) == 1
    assert told == ["degraded"]
    await thread.recover()
    assert told == ["degraded", "ok"]
    thread.close()


async def test_a_compaction_gives_nothing_up_that_is_only_in_memory(
    tmp_path: Path, disk: Disk
) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    with disk.failing(errno.ENOSPC):
        await talk(thread, "one", "two", "three")
        await thread.record_compaction(CompactedRecord(through=1, summary="we spoke"))
        assert await thread.rewind(0) == 1
        assert [message.text for message in thread.view()] == ["one"]
    await thread.recover()
    thread.close()
    assert load(tmp_path / "a.jsonl").history == thread.reading().history


async def test_what_was_given_up_is_not_brought_back_from_a_file_that_lags_behind(
    tmp_path: Path, disk: Disk
) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, "one", "two", "three")
    await thread.record_compaction(CompactedRecord(through=1, summary="we spoke"))
    before = thread.view()
    with disk.failing(errno.ENOSPC):
        await talk(thread, "four")
        with pytest.raises(StorageDegraded, match="go back behind a compaction"):
            await thread.rewind(0)
        assert thread.view()[:-1] == before
    await thread.recover()
    assert await thread.rewind(0) == 1
    assert [message.text for message in thread.view()] == ["one"]
    thread.close()


async def test_texts_of_a_compaction_are_kept_without_secrets(tmp_path: Path, secret: str) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    await talk(thread, "one", "two")
    kept = await thread.record_compaction(
        CompactedRecord(
            id="c1",
            through=1,
            keep=[(1, 1)],
            rewritten={1: f"short {secret}"},
            notes=[Note(1, f"gone {secret}")],
            summary=f"we spoke of {secret}",
        )
    )
    view = [message.text for message in thread.view()]
    thread.close()

    assert (kept.rewritten, kept.notes, kept.summary) == (
        {1: "short [secret MAIL_KEY]"},
        [Note(1, "gone [secret MAIL_KEY]")],
        "we spoke of [secret MAIL_KEY]",
    )
    assert secret.encode() not in path.read_bytes()
    assert not any(secret in text for text in view)
    again = Thread.open(path)
    assert [message.text for message in again.view()] == view
    again.close()


async def test_a_thread_that_begins_afresh_leaves_nothing_of_the_bytes_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    image = attachment("image", PNG, "image/png")
    for is_open in (False, True):
        thread.start_turn()
        await thread.append(Message("user", [image]))
        await thread.end_turn("end_turn", Usage(), 1)
        mine = blobs_folder(path) / "notes.txt"
        mine.write_text("a person's own")
        path.unlink()
        if not is_open:
            thread.close()
            thread = Thread.open(path)
        else:
            thread.start_turn()
        assert list(blobs_folder(path).iterdir()) == [mine]
    said = await thread.append(Message("user", [image]))
    thread.close()
    assert [one.path for one in check_blobs(path, [said])] == [mine]

    # One that is there keeps even what it does not refer to: somebody may look for it.
    orphan = blobs_folder(path) / ("0" * 64 + ".png")
    orphan.touch()
    # What a kill left of bytes that were being written is of no use to anybody.
    torn, ours = (orphan.with_name(f".{orphan.name}.{pid}-0") for pid in (1, os.getpid()))
    torn.touch()
    ours.touch()
    Thread.open(path).close()
    assert (orphan.exists(), torn.exists(), ours.exists()) == (True, False, True)


async def test_what_was_accepted_for_a_turn_keeps_its_bytes_when_the_file_is_deleted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    steered = thread.accept(Message("user", [attachment("image", PNG, "image/png")]))
    path.unlink()
    thread.start_turn()
    said = await thread.append(steered)
    thread.close()
    assert check_blobs(path, [said]) == []
