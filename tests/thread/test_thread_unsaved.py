"""What could not be written by the time a thread was closed: kept elsewhere, and brought back."""

# ruff: noqa: ASYNC240 - what lies on the disk is what these tests look at

from __future__ import annotations

import errno
import random
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from support.disk import Disk
from treadle.errors import StorageDegraded
from treadle.thread import unsaved
from treadle.thread.loaded import LoadReport
from treadle.thread.lock import holder
from treadle.thread.message import Message, Usage
from treadle.thread.replay import load
from treadle.thread.thread import Thread


async def closed_on_a_full_disk(path: Path, disk: Disk, *texts: str) -> list[Message]:
    """Say something that cannot be written, and close the thread; return what it holds."""
    thread = Thread.open(path)
    thread.start_turn()
    said = [*thread.messages, await thread.append(Message("user", "kept"))]
    with disk.failing(errno.ENOSPC):
        said += [await thread.append(Message("assistant", text)) for text in texts]
        await thread.end_turn("end_turn", Usage(), 1)
        disk.only = "a.jsonl"
        with pytest.raises(StorageDegraded, match=f"the last {len(texts) + 1} lines"):
            thread.close()
        disk.only = ""
    return said


async def test_it_comes_back_in_its_place_and_once(
    tmp_path: Path, disk: Disk, elsewhere: Path
) -> None:
    path = tmp_path / "a.jsonl"
    said = await closed_on_a_full_disk(path, disk, "one", "two")
    [place] = elsewhere.iterdir()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert holder(path) is None

    thread = Thread.open(path)
    assert (thread.messages, thread.report, thread.turns) == (said, LoadReport(), 1)
    assert load(path).messages == said
    assert list(elsewhere.iterdir()) == []
    thread.close()


@pytest.mark.parametrize("seed", range(30))
async def test_a_kill_while_it_comes_back_doubles_nothing(
    tmp_path: Path, disk: Disk, elsewhere: Path, seed: int
) -> None:
    path, chance = tmp_path / "a.jsonl", random.Random(seed)
    before = path.stat().st_size if path.exists() else 0
    said = await closed_on_a_full_disk(path, disk, "one", "two")
    [place] = elsewhere.iterdir()
    whole = place.read_bytes()
    lines = whole.partition(b"\n")[2]
    # Any part of it may have been written when the process was killed.
    with path.open("ab") as file:
        file.write(lines[: chance.randrange(len(lines) + 1)])

    Thread.open(path).close()
    assert before < path.stat().st_size
    assert (load(path).messages, load(path).report) == (said, LoadReport())
    place.write_bytes(whole)
    Thread.open(path).close()
    assert (load(path).messages, load(path).report) == (said, LoadReport())


async def test_while_it_cannot_come_back_nobody_goes_on_without_it(
    tmp_path: Path, disk: Disk, elsewhere: Path
) -> None:
    path = tmp_path / "a.jsonl"
    said = await closed_on_a_full_disk(path, disk, "one")
    before = path.read_bytes()
    with disk.failing(errno.ENOSPC, takes=10), pytest.raises(StorageDegraded):
        Thread.open(path)
    assert (path.read_bytes(), len(list(elsewhere.iterdir()))) == (before, 1)
    assert holder(path) is None

    Thread.open(path).close()
    assert load(path).messages == said


async def test_a_thread_that_never_had_a_file_comes_back_whole(
    tmp_path: Path, disk: Disk, elsewhere: Path
) -> None:
    (tmp_path / "data").symlink_to("/proc/treadle")
    path = tmp_path / "data" / "a.jsonl"
    thread = Thread.open(path, agent="inbox", instance="mac")
    said = await thread.append(Message("user", "hi"))
    with pytest.raises(StorageDegraded):
        thread.close()
    [place] = elsewhere.iterdir()
    (tmp_path / "data").unlink()
    (tmp_path / "data").mkdir()
    # The folder leads elsewhere now, and a thread is told by where its file really lies.
    place.rename(elsewhere / f"{unsaved._name(path)}-1.jsonl")

    again = Thread.open(path)
    assert (again.messages, again.created) == ([said], False)
    assert (header := load(path).header) is not None
    assert (header.agent, header.instance) == ("inbox", "mac")
    again.close()


async def test_a_new_thread_under_the_name_of_one_that_was_deleted_gets_none_of_it(
    tmp_path: Path, disk: Disk, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.jsonl"
    await closed_on_a_full_disk(path, disk, "one")
    [place] = elsewhere.iterdir()
    path.unlink()

    for _ in range(2):
        thread = Thread.open(path)
        assert (thread.messages, thread.report) == ([], LoadReport())
        thread.close()
    assert str(place) in caplog.text
    assert place.exists()


async def test_where_the_cache_is_full_too_it_goes_to_the_temporary_folder(
    tmp_path: Path, disk: Disk, elsewhere: Path
) -> None:
    elsewhere.parent.parent.joinpath("cache").write_text("no folder")
    path = tmp_path / "a.jsonl"
    said = await closed_on_a_full_disk(path, disk, "one")
    [folder] = Path(tempfile.gettempdir()).glob("treadle-unsaved*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    Thread.open(path).close()
    assert load(path).messages == said


async def test_where_nothing_can_be_kept_the_loss_is_told_loudly(
    tmp_path: Path, disk: Disk, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    with disk.failing(errno.ENOSPC):
        await thread.append(Message("user", "lost"))
        with pytest.raises(StorageDegraded, match="are lost"):
            thread.close()

    assert [record.levelname for record in caplog.records][-1] == "CRITICAL"
    assert holder(tmp_path / "a.jsonl") is None
    assert list(elsewhere.iterdir()) == []


async def test_a_folder_that_others_may_write_is_not_believed(
    tmp_path: Path, disk: Disk, elsewhere: Path
) -> None:
    path = tmp_path / "a.jsonl"
    said = await closed_on_a_full_disk(path, disk, "forged")
    elsewhere.chmod(0o777)
    thread = Thread.open(path)
    assert thread.messages == said[:1]
    thread.close()
    elsewhere.chmod(0o700)
    moved = tmp_path / "real"
    shutil.move(elsewhere, moved)
    elsewhere.symlink_to(moved)
    thread = Thread.open(path)
    assert thread.messages == said[:1]
    thread.close()
