"""Bytes beside a thread: written once, private, checked when read, found when nobody wants them."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import StorageDegraded
from treadle.thread.attachments import (
    Attachment,
    Reference,
    attachment,
    referenced,
    references,
)
from treadle.thread.blobs import (
    BlobLost,
    BlobProblem,
    Blobs,
    blob_path,
    blobs_folder,
    check_blobs,
    copy_blobs,
    delete_blobs,
)
from treadle.thread.message import Message, decode_line, encode_line
from treadle.thread.mime_types import canonical, fits, told_by

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SHA = hashlib.sha256(PNG).hexdigest()


def image(data: bytes = PNG) -> Attachment:
    return attachment("image", data, "image/png")


def said(*blocks: dict[str, Any]) -> Message:
    return Message("user", list(blocks))


def kept(message: Message) -> Message:
    return decode_line(encode_line(message))


@pytest.fixture
def thread(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent" / "chat.jsonl"


def test_a_line_holds_the_reference_and_never_the_bytes() -> None:
    message = said({"type": "text", "text": "Look:"}, image())
    assert kept(message).content == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "mime_type": "image/png", "sha256": SHA, "size_bytes": len(PNG)},
    ]
    assert references(kept(message)) == [Reference("image", "image/png", SHA, len(PNG))]


async def test_bytes_are_written_once_under_their_hash_for_their_owner_alone(thread: Path) -> None:
    blobs = Blobs(thread)
    old = os.umask(0)
    try:
        await blobs.prepare(said(image(), image()))
    finally:
        os.umask(old)
    path = blobs_folder(thread) / f"{SHA}.png"
    first = path.stat()
    assert [each.name for each in blobs_folder(thread).iterdir()] == [path.name]
    assert (path.read_bytes(), stat.S_IMODE(first.st_mode)) == (PNG, 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for again in (blobs, Blobs(thread)):
        again.hold(said(image()))
        again.write()
    assert path.stat().st_ino == first.st_ino
    assert blob_path(thread, image()) == path


async def test_bytes_that_are_damaged_or_gone_are_written_anew_when_they_come_again(
    thread: Path,
) -> None:
    blobs = Blobs(thread)
    await blobs.prepare(said(image()))
    path = blobs_folder(thread) / f"{SHA}.png"
    path.write_bytes(PNG[::-1])
    await Blobs(thread).prepare(said(image()))
    assert path.read_bytes() == PNG
    path.unlink()
    await blobs.prepare(said(image()))
    assert path.read_bytes() == PNG


def test_in_memory_bytes_stay_in_memory(tmp_path: Path) -> None:
    blobs = Blobs(None)
    blobs.hold(said(image()))
    blobs.write()
    assert blobs.read(kept(said(image())).content[0]) == PNG  # type: ignore[arg-type]
    with pytest.raises(BlobLost, match="missing"):
        blobs.read(dict(image(PNG + b"!")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(PNG[:-1]), "damaged"),
        (lambda path: path.write_bytes(PNG[::-1]), "damaged"),
        (lambda path: (path.unlink(), path.mkdir()), "missing"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "missing"),
    ],
)
async def test_bytes_that_are_not_what_was_written_are_told_and_never_read(
    thread: Path, change: Any, problem: Any
) -> None:
    blobs = Blobs(thread)
    message = kept(said(image()))
    await blobs.prepare(said(image()))
    path = blobs_folder(thread) / f"{SHA}.png"
    change(path)
    with pytest.raises(BlobLost, match=problem):
        blobs.read(message.content[0])  # type: ignore[arg-type]
    found = check_blobs(thread, [message])
    assert BlobProblem(problem, path) in found


async def test_what_cannot_be_written_is_readable_meanwhile_and_written_later(
    thread: Path,
) -> None:
    blobs = Blobs(thread)
    # A file in the folder's place fails for every user, whatever their rights.
    blobs_folder(thread).write_bytes(b"")
    await blobs.prepare(said(image()))
    with pytest.raises(StorageDegraded):
        blobs.write()
    assert blobs.read(dict(image())) == PNG
    blobs_folder(thread).unlink()
    blobs.write()
    assert Blobs(thread).read(dict(image())) == PNG


async def test_where_the_threads_folder_is_away_nothing_is_made_in_its_place(thread: Path) -> None:
    blobs = Blobs(thread)
    thread.parent.rename(away := thread.parent.with_name("away"))
    await blobs.prepare(said(image()))
    assert not thread.parent.exists()
    assert blobs.read(dict(image())) == PNG
    away.rename(thread.parent)
    blobs.write()
    assert Blobs(thread).read(dict(image())) == PNG


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"type": "image"},
        dict(image()) | {"sha256": "../../../etc/passwd"},
        dict(image()) | {"sha256": SHA.upper()},
        dict(image()) | {"sha256": SHA + "\n"},
        dict(image()) | {"sha256": 5},
        dict(image()) | {"size_bytes": "5"},
        dict(image()) | {"size_bytes": -1},
        dict(image()) | {"type": ["image"]},
        dict(image()) | {"type": "text"},
    ],
)
def test_a_block_that_refers_to_nothing_it_may_is_no_reference(
    block: dict[str, Any], thread: Path
) -> None:
    assert Reference.of(block) is None
    assert blob_path(thread, block) is None
    assert references(said(block)) == []
    with pytest.raises(BlobLost):
        Blobs(thread).read(block)


def test_a_type_of_any_shape_gives_a_safe_file_name() -> None:
    for mime_type in ("../x", "image/../../x", 7, "a/b/c", "image/png; x=1"):
        reference = Reference.of(dict(image()) | {"mime_type": mime_type})
        assert reference is not None
        assert reference.file_name in (f"{SHA}.bin", f"{SHA}.png")


async def test_a_fork_takes_its_bytes_along_and_says_which_are_lost(tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "b" / "b.jsonl"
    other = attachment("resource", b"%PDF-1.7", "application/pdf", uri="file:///a.pdf")
    lost = image(PNG + b"lost")
    await Blobs(source).prepare(said(image(), other), said(image()))
    messages = [kept(said(image(), lost)), kept(said(image()))]
    assert copy_blobs(source, target, messages) == [f"{lost['sha256']}.png"]
    assert Blobs(target).read(dict(image())) == PNG
    assert referenced(messages) == {f"{SHA}.png", f"{lost['sha256']}.png"}
    assert [each.name for each in blobs_folder(target).iterdir()] == [f"{SHA}.png"]


async def test_orphans_are_found_and_deleted_and_a_persons_own_files_are_not(
    thread: Path,
) -> None:
    kept_one, orphan = kept(said(image())), image(PNG + b"orphan")
    await Blobs(thread).prepare(said(image(), orphan))
    folder = blobs_folder(thread)
    torn = folder / f".{SHA}.png.123-0"
    own = folder / "notes.txt"
    torn.touch()
    own.touch()
    orphans = sorted([torn, folder / f"{orphan['sha256']}.png", own])
    assert check_blobs(thread, [kept_one]) == [BlobProblem("orphan", each) for each in orphans]
    delete_blobs(thread, keep=referenced([kept_one]))
    assert sorted(folder.iterdir()) == sorted([folder / f"{SHA}.png", own])
    delete_blobs(thread)
    assert list(folder.iterdir()) == [own]
    own.unlink()
    delete_blobs(thread)
    delete_blobs(thread)
    assert not folder.exists()


def test_a_link_in_the_place_of_the_folder_is_not_followed_when_deleting(
    thread: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{SHA}.png").touch()
    blobs_folder(thread).symlink_to(elsewhere)
    delete_blobs(thread)
    assert check_blobs(thread, []) == []
    assert [each.name for each in elsewhere.iterdir()] == [f"{SHA}.png"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\n\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\n\0\0\0WAVEfmt ", "audio/wav"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
        (b"%PDF-1.7", "application/pdf"),
        (b"ID3\x04", ""),
        (b"<svg>", ""),
        (b"", ""),
    ],
)
def test_bytes_tell_their_type(data: bytes, told: str) -> None:
    assert told_by(data) == told
    assert not told or fits(told, data)


def test_a_type_has_one_name() -> None:
    names = ("image/JPG", "audio/x-wav; rate=8", " application/pdf ", "text", "", "a/b\n", "../x/y")
    assert [canonical(name) for name in names] == [
        "image/jpeg",
        "audio/wav",
        "application/pdf",
        "",
        "",
        "a/b",
        "",
    ]
    assert fits("audio/mpeg", b"\xff\xfb\x90")
    assert not fits("audio/mpeg", b"\xff\xd8\xff")
    assert not fits("text/html", PNG)
    assert fits("text/plain", b"\xff\xfe")
