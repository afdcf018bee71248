"""Threads of tasks: told by name and first line, deleted and kept with their parents."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from treadle.errors import ThreadLocked
from treadle.thread import retention
from treadle.thread.catalogue import ThreadIndex
from treadle.thread.lock import ThreadLock
from treadle.thread.paths import thread_path
from treadle.thread.records import Parent
from treadle.thread.task import task_instance, task_of
from treadle.thread.tasks import delete_with_tasks, last_number, tasks_of
from treadle.thread.thread import Thread

DAY_NS = retention.DAY_NS
NOW_NS = 100 * DAY_NS


def _thread(
    data: Path, agent: str, instance: str, parent: Parent | None = None, day: int = 0
) -> Path:
    """Make a thread that was last written on a day."""
    path = thread_path(data, agent, instance)
    thread = Thread.open(path, agent=agent, instance=instance, parent=parent)
    thread.close()
    os.utime(path, ns=(day * DAY_NS, day * DAY_NS))
    return path


def _names(data: Path) -> list[str]:
    return sorted(one.instance for one in ThreadIndex(data).scan()[0])


@pytest.mark.parametrize(
    ("instance", "is_of"),
    [
        ("a/task-1", ("a", 1)),
        ("a/task-1/task-22", ("a/task-1", 22)),
        ("a\n/task-3", ("a\n", 3)),
        ("/task-1", None),
        ("a/task-0", None),
        ("a/task-01", None),
        ("a/task-", None),
        ("a/task-1 ", None),
        ("task-1", None),
        ("a/task-1234567890", None),
    ],
)
def test_a_task_is_told_by_its_whole_name(instance: str, is_of: tuple[str, int] | None) -> None:
    assert task_of(instance) == is_of
    if is_of:
        assert task_instance(*is_of) == instance


def test_a_first_line_says_whose_task_a_thread_is(tmp_path: Path) -> None:
    path = _thread(tmp_path, "helper", "a/task-1", Parent("boss", "a"))
    record = json.loads(path.read_bytes().splitlines()[0])["thread"]
    assert record["parent"] == {"agent": "boss", "instance": "a"}
    assert (record["agent"], record["instance"]) == ("helper", "a/task-1")
    Thread.open(path).close()
    assert tasks_of(tmp_path, "boss", "a") == [(path, ("helper", "a/task-1"), ("boss", "a"), 1)]


def test_a_persons_session_with_the_name_of_a_task_is_none_but_its_number_is_taken(
    tmp_path: Path,
) -> None:
    _thread(tmp_path, "boss", "a")
    _thread(tmp_path, "boss", "a/task-7")
    _thread(tmp_path, "boss", "a/task-8", Parent("boss", "other"))
    _thread(tmp_path, "boss", "b/task-9", Parent("boss", "b"))
    assert tasks_of(tmp_path, "boss", "a") == []
    assert (last_number(tmp_path, "a"), last_number(tmp_path, "c")) == (8, 0)
    assert [one.instance for one in ThreadIndex(tmp_path).scan()[0] if one.is_task] == ["b/task-9"]


def test_names_too_long_for_a_file_are_told_by_the_first_line(tmp_path: Path) -> None:
    long = "é" * 190
    _thread(tmp_path, "boss", long)
    task = _thread(tmp_path, "boss", task_instance(long, 3), Parent("boss", long))
    assert [one.path for one in tasks_of(tmp_path, "boss", long)] == [task]
    assert last_number(tmp_path, long) == 3


def test_what_cannot_be_read_is_no_task_and_stops_nobody(tmp_path: Path) -> None:
    folder = _thread(tmp_path, "boss", "a").parent
    os.mkfifo(folder / "a+2ftask-1.jsonl")
    (folder / "a+2ftask-2.jsonl").write_bytes(b'{"thread": [' + b"[" * 90_000)
    (folder / "a+2ftask-3.jsonl").mkdir()
    (folder / "a+2ftask-4.jsonl").write_bytes(b"")
    assert tasks_of(tmp_path, "boss", "a") == []
    assert last_number(tmp_path, "a") == 4


def test_a_deleted_thread_takes_its_tasks_along_and_nothing_else(tmp_path: Path) -> None:
    parent = Parent("boss", "a")
    for agent, instance, whose in [
        ("boss", "a", None),
        ("boss", "a/task-1", parent),
        ("helper", "a/task-2", parent),
        ("boss", "a/task-3", None),
        ("boss", "ab/task-1", Parent("boss", "ab")),
        ("helper", "a", None),
    ]:
        _thread(tmp_path, agent, instance, whose)
    assert delete_with_tasks(tmp_path, "boss", "a")
    assert _names(tmp_path) == ["a", "a/task-3", "ab/task-1"]
    assert not delete_with_tasks(tmp_path, "boss", "a")


def test_a_thread_stays_while_one_of_its_tasks_is_held(tmp_path: Path) -> None:
    path = _thread(tmp_path, "boss", "a")
    task = _thread(tmp_path, "boss", "a/task-1", Parent("boss", "a"))
    lock = ThreadLock.acquire(task)
    with pytest.raises(ThreadLocked):
        delete_with_tasks(tmp_path, "boss", "a")
    assert path.exists()
    lock.release()
    assert delete_with_tasks(tmp_path, "boss", "a")


def test_tasks_expire_with_their_parent_and_do_not_count(tmp_path: Path) -> None:
    old, new, orphan = Parent("boss", "old"), Parent("boss", "new"), Parent("boss", "gone")
    _thread(tmp_path, "boss", "old", day=50)
    _thread(tmp_path, "boss", "old/task-1", old, day=40)
    _thread(tmp_path, "boss", "new", day=98)
    _thread(tmp_path, "helper", "new/task-1", new, day=10)
    _thread(tmp_path, "boss", "gone/task-1", orphan, day=20)
    due = list(retention.look(tmp_path, retention.Policy(threads=1), NOW_NS))
    assert [(one.instance, [task.pair for task in one.tasks]) for one in due] == [
        ("gone/task-1", []),
        ("old", [("boss", "old/task-1")]),
    ]
    assert [one.instance for one in retention.look(tmp_path, retention.Policy(30), NOW_NS)] == [
        "gone/task-1",
        "old",
    ]
    assert all(retention.delete(one, NOW_NS) for one in due)
    assert _names(tmp_path) == ["new", "new/task-1"]


def test_a_thread_whose_task_may_not_go_stays(tmp_path: Path) -> None:
    _thread(tmp_path, "boss", "a", day=50)
    _thread(tmp_path, "boss", "a/task-2", Parent("boss", "a"), day=100)
    (due,) = retention.look(tmp_path, retention.Policy(30), NOW_NS)
    assert due.stays == "the thread of its task 2 stays: it was used within the last day"
    _thread(tmp_path, "boss", "a/task-2", Parent("boss", "a"), day=50)
    (due,) = retention.look(tmp_path, retention.Policy(30), NOW_NS)
    assert not retention.delete(due, NOW_NS, lambda *pair: pair == ("boss", "a/task-2"))
    assert retention.delete(due, NOW_NS)
    assert _names(tmp_path) == []
