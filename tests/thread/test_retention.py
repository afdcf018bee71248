"""Threads that expire: exactly those that are due and can be proved to be whole; never half."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.waiting import PATIENCE_SECONDS
from treadle.thread import unsaved
from treadle.thread.lock import ThreadLock
from treadle.thread.paths import (
    DAMAGED_SUFFIX,
    LOCK_SUFFIX,
    beside,
    shown_path,
    thread_path,
)
from treadle.thread.records import FORMAT_VERSION
from treadle.thread.replay import load
from treadle.thread.retention import DAY_NS, Due, Policy, delete, look, tidy
from treadle.thread.whole import finish

NOW_NS = 2_000_000_000 * 10**9


def write(
    data: Path,
    agent: str,
    instance: str,
    age_days: float = 100,
    *,
    header: dict[str, object] | None = None,
) -> Path:
    """Write a thread of two messages that was used so many days ago."""
    path = thread_path(data, agent, instance)
    path.parent.mkdir(parents=True, exist_ok=True)
    first = {"version": FORMAT_VERSION, "agent": agent, "instance": instance, **(header or {})}
    lines = [
        {"thread": first},
        {"role": "user", "content": instance, "turn": 1},
        {"role": "assistant", "content": "Hello", "turn": 1},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    touch(path, age_days)
    return path


def touch(path: Path, age_days: float) -> None:
    at_ns = NOW_NS - round(age_days * DAY_NS)
    os.utime(path, ns=(at_ns, at_ns))


def instances(data: Path, policy: Policy) -> list[str]:
    """Return the instances that may go, in order."""
    return [due.instance for due in look(data, policy, NOW_NS) if not due.stays]


def expire(data: Path, policy: Policy) -> list[str]:
    """Delete what is due, as the daemon does."""
    finish(data)
    gone = [due for due in look(data, policy, NOW_NS) if not due.stays and delete(due, NOW_NS)]
    tidy(data)
    return [due.instance for due in gone]


def left(data: Path) -> set[str]:
    """Return every file and folder in the data folder."""
    return {str(path.relative_to(data)) for path in data.rglob("*")}


def test_threads_older_than_the_days_are_due_the_oldest_first(tmp_path: Path) -> None:
    for age in (5, 40, 30.001, 29.999, 90):
        write(tmp_path, f"agent{age % 2}", f"{age}", age)
    assert instances(tmp_path, Policy(days=30)) == ["90", "40", "30.001"]


def test_threads_beyond_the_newest_are_due_over_all_agents(tmp_path: Path) -> None:
    for age in (5, 40, 30, 90, 2):
        write(tmp_path, f"agent{age % 3}", f"{age}", age)
    assert instances(tmp_path, Policy(threads=3)) == ["90", "40"]
    assert instances(tmp_path, Policy(threads=5)) == []
    assert instances(tmp_path, Policy(days=35, threads=1)) == ["90", "40", "30", "5"]


def test_without_a_policy_nothing_is_due(tmp_path: Path) -> None:
    write(tmp_path, "a", "old", 10_000)
    assert list(look(tmp_path, Policy(), NOW_NS)) == []
    assert list(look(tmp_path / "nowhere", Policy(days=1), NOW_NS)) == []
    assert (bool(Policy()), bool(Policy(threads=1))) == (False, True)


def test_what_is_protected_stays_and_no_newer_thread_goes_in_its_place(tmp_path: Path) -> None:
    held = ThreadLock.acquire(write(tmp_path, "a", "held", 90))
    for age in (5, 4, 3):
        write(tmp_path, "a", f"{age}", age)
    try:
        assert instances(tmp_path, Policy(threads=3)) == []
    finally:
        held.release()


def _damage(path: Path) -> None:
    beside(path, DAMAGED_SUFFIX).write_text("?")


def _append(data: bytes) -> Callable[[Path], None]:
    def append(path: Path) -> None:
        path.write_bytes(path.read_bytes() + data)

    return append


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _behead(path: Path) -> None:
    path.write_bytes(path.read_bytes().partition(b"\n")[2])


def _move(path: Path) -> None:
    path.rename(path.with_name("other.jsonl"))


PROTECTED: list[tuple[str, Callable[[Path], object], str]] = [
    ("used today", lambda path: touch(path, 0.9), "it was used within the last day"),
    ("used in the future", lambda path: touch(path, -3), "it was used within the last day"),
    ("with damaged parts", _damage, "a part of it lies in a .damaged file"),
    ("with a torn tail", _append(b'{"role": "us'), "not all of it can be read"),
    ("with a bad line", _append(b"{]\n" + b'{"role": "user"}\n'), "not all of it can be read"),
    ("with a newer record", _append(b'{"role": 7}\n'), "not all of it can be read"),
    ("of no file", _make_folder, "it is no regular file"),
    ("behind a link", _link, "it is no regular file"),
    ("without a header", _behead, "its first line does not say whose it is"),
    ("of another's name", _move, "its first line does not say whose it is"),
    ("empty", lambda path: path.write_bytes(b""), "its first line does not say whose it is"),
]


@pytest.mark.parametrize(("kind", "change", "why"), PROTECTED, ids=[each[0] for each in PROTECTED])
def test_a_thread_that_is_not_plainly_whole_stays(
    tmp_path: Path, kind: str, change: Callable[[Path], object], why: str
) -> None:
    path = write(tmp_path, "a", "b")
    change(path)
    for each in path.parent.iterdir():
        if "used" not in kind:
            touch(each, 100)
    if path.is_symlink():
        os.utime(path, ns=(0, 0), follow_symlinks=False)
    before = left(tmp_path)
    assert [due.stays for due in look(tmp_path, Policy(threads=1, days=1), NOW_NS)] in (
        [why],
        [],  # what was used today is not due by its age at all
    )
    write(tmp_path, "newer", "one", -4)
    assert [due.stays for due in look(tmp_path, Policy(threads=1), NOW_NS)] == [why]
    assert expire(tmp_path, Policy(threads=1)) == []
    assert left(tmp_path) >= before


def test_a_thread_of_a_newer_version_stays(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", header={"version": FORMAT_VERSION + 1})
    write(tmp_path, "a", "c", header={"agent": "somebody"})
    assert {due.instance: due.stays for due in look(tmp_path, Policy(days=1), NOW_NS)} == {
        "b": "a newer Treadle has written it",
        "c": "its first line does not say whose it is",
    }


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_thread_that_may_not_be_read_stays(tmp_path: Path) -> None:
    write(tmp_path, "a", "b").chmod(0)
    assert [due.stays for due in look(tmp_path, Policy(days=1), NOW_NS)] == [
        "not all of it can be read"
    ]


def test_a_whole_thread_goes_with_all_that_lies_beside_it_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "gone")
    blob = beside(path, ".blobs") / ("0" * 64 + ".png")
    shown = shown_path(path)
    for each in (blob, shown):
        each.parent.mkdir(parents=True)
        each.write_bytes(b"?")
    beside(path, LOCK_SUFFIX).write_text("1\n")  # of a holder that was killed
    # Names that begin alike, and files of nobody's.
    for instance in ("gone2", "gon", "gone+"):
        write(tmp_path, "a", instance, 2)
    (path.parent / "gone.txt").write_text("mine")
    (path.parent / "gone.jsonl.bak").write_text("mine")
    shown.with_name("gone2.md").write_text("?")
    assert expire(tmp_path, Policy(days=30)) == ["gone"]
    assert left(tmp_path) == {
        "shown",
        "shown/a",
        "shown/a/gone2.md",
        "threads",
        "threads/a",
        "threads/a/gon.jsonl",
        "threads/a/gone+2b.jsonl",
        "threads/a/gone.jsonl.bak",
        "threads/a/gone.txt",
        "threads/a/gone2.jsonl",
    }


def test_folders_go_with_the_last_thread_in_them(tmp_path: Path) -> None:
    shown = shown_path(write(tmp_path, "a", "x"))
    shown.parent.mkdir(parents=True)
    shown.write_text("?")
    write(tmp_path, "b", "y" * 200)  # a name that is too long for a file
    assert sorted(expire(tmp_path, Policy(days=30))) == ["x", "y" * 200]
    assert left(tmp_path) == {"shown", "threads"}


def _due(data: Path) -> Due:
    (due,) = look(data, Policy(days=30), NOW_NS)
    return due


@pytest.mark.parametrize(
    "change",
    [
        _append(b'{"role": "user", "content": "And then?"}\n'),
        lambda path: touch(path, 99),
        _damage,
        _make_folder,
    ],
    ids=["written", "touched", "damaged", "replaced"],
)
def test_what_has_happened_meanwhile_is_seen_under_the_lock(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path = write(tmp_path, "a", "b")
    due = _due(tmp_path)
    change(path)
    before = left(tmp_path)
    assert not delete(due, NOW_NS)
    assert left(tmp_path) == before


def test_a_thread_that_somebody_holds_or_has_open_by_now_stays(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "b")
    due = _due(tmp_path)
    lock = ThreadLock.acquire(path)
    assert not delete(due, NOW_NS)
    lock.release()
    assert not delete(due, NOW_NS, lambda *pair: pair == ("a", "b"))
    assert not delete(due, NOW_NS - 200 * DAY_NS)  # the clock was set back
    assert load(path).messages[0].text == "b"
    assert delete(due, NOW_NS, lambda *pair: pair == ("a", "c"))
    assert not delete(due, NOW_NS)
    assert left(tmp_path) == {"threads", "threads/a"}


def test_a_thread_of_which_a_part_waits_elsewhere_stays(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "b")
    late = b'{"role":"user","content":"Late"}\n'
    waiting = unsaved.keep(path, path.stat().st_size, late, {}).place
    try:
        assert [due.stays for due in look(tmp_path, Policy(days=30), NOW_NS)] == [
            "a part of it waits to be written"
        ]
    finally:
        waiting.unlink()


def test_a_lock_that_a_kill_left_goes_and_one_that_somebody_holds_stays(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "b")
    beside(path, LOCK_SUFFIX).write_text("1\n")
    path.unlink()
    held = ThreadLock.acquire(thread_path(tmp_path, "c", "d"))
    tidy(tmp_path)
    assert left(tmp_path) == {"threads", "threads/c", "threads/c/d.lock"}
    held.release()


EXPIRE = """
import sys
from pathlib import Path
from treadle.thread.retention import Policy, delete, look
from treadle.thread.whole import finish
data, now_ns = Path(sys.argv[1]), int(sys.argv[2])
print("begun", flush=True)
finish(data)
for due in look(data, Policy(days=30), now_ns):
    delete(due, now_ns)
"""


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_in_the_middle_leaves_whole_threads_and_the_next_run_ends_the_work(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(200):
        write(tmp_path, f"agent{number % 3}", f"old{number}", 100)
        blob = beside(thread_path(tmp_path, f"agent{number % 3}", f"old{number}"), ".blobs")
        blob.mkdir()
        (blob / ("0" * 64 + ".png")).write_bytes(b"?")
    write(tmp_path, "agent0", "new", 2)
    with subprocess.Popen(
        [sys.executable, "-c", EXPIRE, str(tmp_path), str(NOW_NS)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        # Killed by progress and not by time: after so many threads are gone.
        some = chance.randint(150, 200)
        end = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < end:
            if len(list(tmp_path.glob("threads/*/*.jsonl"))) <= some:
                process.send_signal(signal.SIGKILL)
                break
    for path in tmp_path.glob("threads/*/*.jsonl"):
        loaded = load(path)
        assert [message.text for message in loaded.messages] == [path.stem, "Hello"]
        assert beside(path, ".blobs").is_dir() or path.stem == "new"
    expire(tmp_path, Policy(days=30))
    assert left(tmp_path) == {"threads", "threads/agent0", "threads/agent0/new.jsonl"}


def test_ten_thousand_threads_of_which_most_stay_are_looked_at_and_the_rest_goes(
    tmp_path: Path,
) -> None:
    for number in range(10_000):
        write(tmp_path, f"agent{number % 20}", f"{number}", 10 + number / 1000)
    gone = expire(tmp_path, Policy(threads=9_000))
    assert gone == [str(number) for number in range(9_999, 8_999, -1)]
    assert len(list(tmp_path.glob("threads/*/*"))) == 9_000
