"""Folders, links and pipes where a thread's own files should be: told, left alone, never used."""

# ruff: noqa: ASYNC240 - what lies on the disk is what these tests look at

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.errors import StorageDegraded, ThreadUnreadable
from treadle.server.log.file import LogFile
from treadle.thread import whole
from treadle.thread.attachments import attachment
from treadle.thread.blobs import Blobs
from treadle.thread.fork import fork
from treadle.thread.lock import holder
from treadle.thread.message import Message, Usage
from treadle.thread.replay import load
from treadle.thread.thread import Thread
from treadle.thread.transfer import export_lines, import_file
from treadle.thread.verify import Finding, Repaired, repair, verify
from treadle.thread.whole import delete_thread

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="links are for administrators there, and it has no such pipes"
)

HI = b'{"role":"user","content":"hi"}\n'
SUFFIXES = (".damaged", ".lock", ".new", ".deleting", ".blobs")
PRECIOUS = b"precious\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one thread, and beside it what must never change."""
    data = tmp_path / "data"
    (data / "threads" / "a").mkdir(parents=True)
    (data / "threads" / "a" / "x.jsonl").write_bytes(HI)
    (tmp_path / "victim").write_bytes(PRECIOUS)
    (tmp_path / "victims").mkdir()
    return data


@pytest.fixture
def path(data: Path) -> Path:
    return data / "threads" / "a" / "x.jsonl"


def make(kind: str, place: Path) -> None:
    """Put something in the place of a file of ours."""
    outside = place.parents[3]
    match kind:
        case "folder":
            place.mkdir()
        case "full folder":
            place.mkdir()
            (place / "mine").write_bytes(PRECIOUS)
        case "pipe":
            os.mkfifo(place)
        case "file":
            place.write_bytes(PRECIOUS)
        case "link":
            place.symlink_to(outside / "victim")
        case "link to a folder":
            place.symlink_to(outside / "victims")
        case "link to nothing":
            place.symlink_to(outside / "nothing")


def kinds(suffix: str) -> list[str]:
    """What can lie there and is nothing of ours."""
    links = ["link", "link to a folder", "link to nothing", "pipe"]
    return [*links, "file"] if suffix == ".blobs" else [*links, "folder", "full folder"]


OBSTACLES = [(suffix, kind) for suffix in SUFFIXES for kind in kinds(suffix)]


def tree(folder: Path) -> dict[str, object]:
    """Everything in a folder, links as links."""
    return {
        str(each.relative_to(folder)): each.readlink()
        if each.is_symlink()
        else each.read_bytes()
        if each.is_file()
        else None
        for each in sorted(folder.rglob("*"))
    }


def storage(thread: Thread) -> str:
    """Ask anew: it changes between two looks."""
    return thread.storage


def import_over(path: Path) -> object:
    """Import into the name of a thread that is not there."""
    source = path.parents[3] / "in.jsonl"
    source.write_bytes(HI)
    path.unlink()
    try:
        return import_file(source, path)
    finally:
        path.write_bytes(HI)
        source.unlink()


def fork_over(path: Path) -> object:
    """Copy another thread into the name of a thread that is not there."""
    source = path.parents[3] / "in.jsonl"
    source.write_bytes(HI)
    path.unlink()
    try:
        return fork(source, path)
    finally:
        path.write_bytes(HI)
        source.unlink()


DOORS: dict[str, Callable[[Path], object]] = {
    "prompt": Thread.open,
    "delete": delete_thread,
    "import": import_over,
    "fork": fork_over,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("suffix", "kind"), OBSTACLES)
def test_what_lies_in_the_place_of_our_files_is_named_and_left_alone(
    data: Path, path: Path, suffix: str, kind: str, door: str
) -> None:
    place = path.with_suffix(suffix)
    make(kind, place)
    before = tree(data.parent)

    with pytest.raises(ThreadUnreadable, match="move it away") as refused:
        DOORS[door](path)

    assert refused.value.data == {"path": str(place)}
    assert refused.value.message.startswith(f"{place} is ")
    assert tree(data.parent) == before
    assert list(export_lines(path)) == [HI.strip()]


@pytest.mark.parametrize(("suffix", "kind"), OBSTACLES)
@pytest.mark.parametrize("is_there", [True, False])
def test_verify_says_where_it_lies_and_repair_leaves_it(
    data: Path, path: Path, suffix: str, kind: str, is_there: bool
) -> None:
    place = path.with_suffix(suffix)
    make(kind, place)
    if not is_there:
        path.unlink()
    else:
        path.chmod(0o600)
    before = tree(data.parent)

    found = list(verify(data))

    assert [(one.path, one.kind, one.is_mendable) for one in found] == [
        (place, "in_the_way", False)
    ]
    assert found[0].detail.endswith("move it away")
    assert list(repair(data)) == []
    assert tree(data.parent) == before


def test_a_thread_that_cannot_be_mended_for_it_says_so(data: Path, path: Path) -> None:
    path.write_bytes(HI + b"not json\n")
    path.chmod(0o600)
    path.with_suffix(".damaged").symlink_to(data.parent / "victim")

    [repaired] = repair(data)

    assert repaired == Repaired(path, problem=repaired.problem)
    assert repaired.problem.startswith(f"{path.with_suffix('.damaged')} is a link")
    assert (data.parent / "victim").read_bytes() == PRECIOUS


def test_a_folder_among_the_bytes_of_a_thread_is_told_before_anything_is_deleted(
    data: Path, path: Path
) -> None:
    path.chmod(0o600)
    place = path.with_suffix(".blobs") / ("0" * 64 + ".png")
    place.mkdir(parents=True)

    assert [(one.path, one.kind) for one in verify(data)] == [(place, "in_the_way")]
    with pytest.raises(ThreadUnreadable) as refused:
        delete_thread(path)

    assert refused.value.data == {"path": str(place)}
    assert path.read_bytes() == HI


def test_a_file_in_the_place_of_an_agents_folder_is_found(data: Path) -> None:
    (data / "threads" / "b").write_bytes(b"")
    (data / "threads" / ".DS_Store").write_bytes(b"")
    (data / "threads" / "a" / "x.jsonl").chmod(0o600)

    detail = "is a file, where the threads of an agent should lie; move it away"
    assert list(verify(data)) == [Finding(data / "threads" / "b", "in_the_way", detail)]


async def test_a_side_file_that_becomes_a_link_under_a_live_thread_gets_nothing(
    data: Path, path: Path
) -> None:
    thread = Thread.open(path)
    for suffix in (".damaged", ".blobs"):
        path.with_suffix(suffix).symlink_to(data.parent / "victims" / "new")
    # Half a line of somebody else's, which would go to the side file.
    with path.open("ab") as file:
        file.write(b"half")
    thread.start_turn()
    assert storage(thread) == "degraded"
    picture = attachment("image", b"bytes", "image/png")
    said = [await thread.append(Message("user", [picture]))]
    await thread.end_turn("end_turn", Usage(), 1)
    assert list((data.parent / "victims").iterdir()) == []

    for suffix in (".damaged", ".blobs"):
        path.with_suffix(suffix).unlink()
    await thread.recover()

    assert storage(thread) == "ok"
    assert load(path).messages[1:] == said
    assert path.with_suffix(".damaged").read_bytes() == b"half"
    thread.close()


def test_bytes_are_not_written_where_a_link_leads(data: Path, path: Path) -> None:
    path.with_suffix(".blobs").symlink_to(data.parent / "victims")
    blobs = Blobs(path)
    blobs.hold(Message("user", [attachment("image", b"bytes", "image/png")]))

    with pytest.raises(StorageDegraded, match="move away"):
        blobs.write()

    assert list((data.parent / "victims").iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe"])
def test_the_log_is_not_written_where_a_link_or_a_pipe_leads(data: Path, kind: str) -> None:
    folder = data / "logs" / "here"
    folder.mkdir(parents=True)
    make(kind, folder / "treadle.log")

    with pytest.raises(OSError, match=r"link|No such device"):
        LogFile(folder).write(b"a line\n")

    assert (data.parent / "victim").read_bytes() == PRECIOUS
    assert not (data.parent / "nothing").exists()


def test_a_data_folder_that_is_a_link_is_the_persons_choice(data: Path) -> None:
    data.rename(data.with_name("real"))
    data.symlink_to(data.with_name("real"))
    path = data / "threads" / "a" / "x.jsonl"
    path.write_bytes(HI + b"not json\n")

    Thread.open(path).close()

    assert path.with_suffix(".damaged").read_bytes() == b"not json\n"
    assert delete_thread(path)


def test_who_holds_a_thread_is_not_asked_of_a_pipe_or_a_link(data: Path, path: Path) -> None:
    lock = path.with_suffix(".lock")
    for kind in ("pipe", "link", "folder"):
        make(kind, lock)
        assert holder(path) is None
        lock.rmdir() if kind == "folder" else lock.unlink()


def test_what_kills_left_is_not_looked_for_in_folders(data: Path, path: Path) -> None:
    path.with_suffix(".deleting").mkdir()
    path.with_suffix(".new").symlink_to(data.parent / "victim")
    assert list(whole.left_behind(data)) == []


@pytest.mark.parametrize("is_kept", [True, False])
async def test_an_agents_folder_that_a_file_replaced_is_waited_for(
    data: Path, path: Path, is_kept: bool
) -> None:
    thread = Thread.open(path)
    if is_kept:
        path.parent.rename(data / "away")
    else:
        delete_thread_by_hand(path)
    path.parent.write_bytes(PRECIOUS)

    thread.start_turn()
    said = await thread.append(Message("user", "still here"))
    await thread.end_turn("end_turn", Usage(), 1)
    thread.start_turn()
    # What lies in a folder that was moved away is written there, and so it is not lost.
    assert storage(thread) == ("ok" if is_kept else "degraded")
    assert thread.messages[-1] == said
    assert path.parent.read_bytes() == PRECIOUS

    path.parent.unlink()
    if is_kept:
        (data / "away").rename(path.parent)
    await thread.recover()
    assert storage(thread) == "ok"
    assert load(path).messages == thread.messages
    assert len(thread.messages) == 1 + is_kept
    thread.close()


@pytest.mark.parametrize("kind", ["folder", "full folder", "pipe"])
async def test_a_thread_whose_file_something_else_replaced_begins_afresh_and_waits(
    data: Path, path: Path, kind: str
) -> None:
    thread = Thread.open(path)
    path.unlink()
    make(kind, path)

    for turn in (1, 2):
        assert thread.start_turn() == turn
        await thread.append(Message("user", f"turn {turn}"))
        await thread.end_turn("end_turn", Usage(), 1)
    assert storage(thread) == "degraded"
    assert [one.text for one in thread.messages] == ["turn 1", "turn 2"]

    path.rename(data / "moved away")
    await thread.recover()
    assert storage(thread) == "ok"
    assert load(path).messages == thread.messages
    thread.close()


def delete_thread_by_hand(path: Path) -> None:
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()
