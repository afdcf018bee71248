"""Folders of threads that are missing, deleted or away, and those who come meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.errors import StorageDegraded
from treadle.thread.lock import holder
from treadle.thread.message import Message, Usage
from treadle.thread.replay import load
from treadle.thread.thread import Thread

# A folder that not even root can make.
IMPOSSIBLE = Path("/proc/treadle/a.jsonl")


async def test_a_thread_whose_folder_cannot_be_made_is_held_in_memory() -> None:
    thread = Thread.open(IMPOSSIBLE, agent="inbox", instance="mac")
    thread.start_turn()
    said = await thread.append(Message("user", "hi"))
    await thread.end_turn("end_turn", Usage(), 0)
    assert thread.start_turn() == 2

    assert (thread.storage, thread.created, thread.messages) == ("degraded", True, [said])
    with pytest.raises(StorageDegraded, match="lie in"):
        thread.close()


async def test_a_folder_deleted_under_a_thread_is_made_anew_at_the_next_turn(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data" / "agent" / "a.jsonl"
    thread = Thread.open(path, agent="inbox", instance="mac")
    thread.start_turn()
    await thread.append(Message("user", "forget me"))
    delete(tmp_path / "data")
    await thread.append(Message("assistant", "gone"))
    await thread.end_turn("end_turn", Usage(), 1)

    assert (thread.start_turn(), thread.created, thread.storage) == (1, True, "ok")
    said = await thread.append(Message("user", "hi"))
    assert load(path).messages == thread.messages == [said]
    assert holder(path) == os.getpid()
    thread.close()


async def test_a_folder_that_is_deleted_and_cannot_be_made_anew_leaves_a_thread_in_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data" / "agent" / "a.jsonl"
    thread = Thread.open(path)
    delete(tmp_path / "data")
    (tmp_path / "data").symlink_to(IMPOSSIBLE.parent)

    thread.start_turn()
    said = await thread.append(Message("user", "hi"))
    await thread.end_turn("end_turn", Usage(), 1)
    assert (thread.storage, thread.messages) == ("degraded", [said])

    (tmp_path / "data").unlink()
    thread.start_turn()
    assert (thread.storage, thread.messages) == ("ok", [said])
    assert (load(path).messages, holder(path)) == ([said], os.getpid())
    thread.close()


async def test_a_folder_that_is_away_for_a_while_is_no_reason_to_forget(tmp_path: Path) -> None:
    path = tmp_path / "data" / "agent" / "a.jsonl"
    thread = Thread.open(path)
    said = []
    for away in (False, True, False):
        if away:
            (tmp_path / "data").rename(tmp_path / "away")
        elif (tmp_path / "away").exists():
            (tmp_path / "away").rename(tmp_path / "data")
        thread.start_turn()
        said.append(await thread.append(Message("user", f"away: {away}")))
        await thread.end_turn("end_turn", Usage(), 1)

    assert (thread.storage, thread.turns) == ("ok", 3)
    assert load(path).messages == thread.messages == said
    thread.close()


async def test_a_thread_begun_by_somebody_else_meanwhile_keeps_its_one_first_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").symlink_to(IMPOSSIBLE.parent)
    path = tmp_path / "data" / "a.jsonl"
    thread = Thread.open(path, agent="one", instance="x")
    mine = await thread.append(Message("user", "mine"))
    (tmp_path / "data").unlink()
    other = Thread.open(path, agent="two", instance="x")
    theirs = await other.append(Message("user", "theirs"))
    await thread.recover()
    assert (thread.storage, load(path).messages) == ("degraded", [theirs])
    other.close()
    await thread.recover()

    assert (thread.storage, load(path).messages) == ("ok", [theirs, mine])
    assert path.read_bytes().count(b'{"thread"') == 1
    thread.start_turn()
    assert thread.messages == [theirs, mine]
    thread.close()


def delete(folder: Path) -> None:
    """Delete a folder with all that is in it."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
