"""What a list of stored threads shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.thread import catalogue
from treadle.thread.catalogue import StoredThread, ThreadIndex, ThreadProblem
from treadle.thread.message import Message, Usage
from treadle.thread.paths import thread_path
from treadle.thread.thread import Thread

LONG = "Größe " * 30


async def store(data: Path, agent: str, instance: str, count: int, at_seconds: int) -> Path:
    path = thread_path(data, agent, instance)
    thread = Thread.open(path, agent=agent, instance=instance)
    thread.start_turn()
    for number in range(count):
        await thread.append(Message("user", f'{number}\n{{"role"', extra={"x": 1}))
    await thread.end_turn("end_turn", Usage(), 0)
    thread.close()
    os.utime(path, (at_seconds, at_seconds))
    return path


def list_threads(data: Path) -> tuple[list[StoredThread], list[ThreadProblem]]:
    index = ThreadIndex(data)
    listed, problems = index.scan()
    return [index.look_at(one) for one in listed], problems


async def test_every_stored_thread_is_listed_newest_first(tmp_path: Path) -> None:
    old = await store(tmp_path, "inbox", "Mac's mail", 3, 1_000_000_000)
    new = await store(tmp_path, LONG, LONG, 0, 1_700_000_000)
    (old.parent / "x.damaged").touch()

    assert list_threads(tmp_path) == (
        [
            StoredThread(LONG, LONG, new, 0, "2023-11-14T22:13:20.000Z", 1_700_000_000 * 10**9),
            StoredThread(
                "inbox", "Mac's mail", old, 3, "2001-09-09T01:46:40.000Z", 1_000_000_000 * 10**9
            ),
        ],
        [],
    )


async def test_a_list_says_who_holds_a_thread_and_takes_it_from_nobody(tmp_path: Path) -> None:
    path = await store(tmp_path, "inbox", "a", 1, 1)
    thread = Thread.open(path)
    path.with_name("stale.jsonl").touch()
    path.with_name("stale.lock").write_text("1\n")

    held = {stored.instance: stored.held_by for stored in list_threads(tmp_path)[0]}

    assert held == {"a": os.getpid(), "stale": None}
    await thread.append(Message("user", "still mine"))
    thread.close()
    assert [one.messages for one in list_threads(tmp_path)[0] if one.instance == "a"] == [2]


async def test_what_cannot_be_listed_is_told_and_hides_nothing_else(tmp_path: Path) -> None:
    good = await store(tmp_path, "inbox", "a", 1, 1)
    hashed = await store(tmp_path, "inbox", LONG, 1, 1)
    hashed.write_bytes(b'{"role":"user"}\n')
    (good.parent / "folder.jsonl").mkdir()
    (good.parent / "Foreign name.jsonl").touch()
    (tmp_path / "threads" / "stray").touch()

    found, problems = list_threads(tmp_path)

    assert [one.path for one in found] == [good]
    assert sorted(problem.path for problem in problems) == sorted(
        [hashed, good.parent / "folder.jsonl", good.parent / "Foreign name.jsonl"]
    )
    assert all(problem.message for problem in problems)


def test_no_data_folder_means_no_threads(tmp_path: Path) -> None:
    assert list_threads(tmp_path / "none") == ([], [])


async def test_messages_are_counted_across_the_pieces_a_file_is_read_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(tmp_path, "inbox", "a", 9, 1)
    for size in range(1, 40):
        monkeypatch.setattr(catalogue, "CHUNK_BYTES", size)
        assert [one.messages for one in list_threads(tmp_path)[0]] == [9]


async def test_an_index_counts_again_only_what_has_changed_and_forgets_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [await store(tmp_path, "inbox", name, 2, 1) for name in ("a", LONG, "c")]
    counted: list[str] = []
    counting = catalogue._count_messages

    def count(path: Path) -> int:
        counted.append(path.name)
        return counting(path)

    def listed() -> dict[str, int]:
        return {one.instance: index.look_at(one).messages for one in index.scan()[0]}

    monkeypatch.setattr(catalogue, "_count_messages", count)
    index = ThreadIndex(tmp_path)
    assert listed() == listed() == {"a": 2, LONG: 2, "c": 2}
    assert sorted(counted) == sorted(path.name for path in paths)
    counted.clear()
    with paths[1].open("ab") as file:
        file.write(b'{"role":"user","content":"more"}\n')
    paths[2].unlink()
    # Of the same size, and written at another time.
    data = paths[0].read_bytes()
    paths[0].write_bytes(data.replace(b'{"role"', b'{"rule"', 1))
    assert listed() == {"a": 1, LONG: 3}
    assert sorted(counted) == sorted(path.name for path in paths[:2])
    gone = index.scan()[0]
    paths[1].unlink()
    counted.clear()
    assert {one.instance for one in index.scan()[0]} == {"a"}
    assert [index.look_at(one).messages for one in gone if one.instance == "a"] == [1]
    with pytest.raises(FileNotFoundError):
        index.look_at(next(one for one in gone if one.instance == LONG))
