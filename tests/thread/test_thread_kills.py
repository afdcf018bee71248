"""A kill between any two steps of what makes a thread, or deletes one, as a whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from treadle.thread.attachments import attachment
from treadle.thread.catalogue import ThreadIndex
from treadle.thread.fork import fork
from treadle.thread.message import Message, Usage, encode_line
from treadle.thread.paths import shown_path, thread_path
from treadle.thread.replay import load
from treadle.thread.thread import Thread
from treadle.thread.transfer import export_lines, import_file
from treadle.thread.verify import repair, verify
from treadle.thread.whole import delete_thread, finish, settle

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process is forked to be killed")

# What the interpreter announces before it changes anything on disk.
CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod"})
# No operation here takes as many steps.
MOST_STEPS = 100


async def talk(path: Path) -> None:
    """Store a thread that has everything that a thread can have beside it."""
    thread = Thread.open(path, agent="inbox", instance="one")
    thread.start_turn()
    said = [{"type": "text", "text": "look"}, attachment("image", b"picture", "image/png")]
    await thread.append(Message("user", said))
    await thread.append(Message("assistant", "I see it."))
    await thread.end_turn("end_turn", Usage(), 1)
    thread.close()
    path.with_suffix(".damaged").write_bytes(b"a bad line\n")
    shown_path(path).parent.mkdir(parents=True, exist_ok=True)
    shown_path(path).write_text("I see it.")


def killed(step: int, work: Callable[[], object]) -> bool:
    """Do some work in a process that is killed before its change number `step`.

    Returns:
        Whether it was; it ends before that where the work has fewer steps.
    """
    child = os.fork()
    if not child:
        left = [step]

        def before(event: str, arguments: tuple[object, ...]) -> None:
            is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
            if event in CHANGES or is_write:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)

        try:
            sys.addaudithook(before)
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def everything(data: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file()
    }


async def test_a_deletion_that_was_killed_anywhere_is_finished_or_never_was(tmp_path: Path) -> None:
    outcomes = []
    for step in range(MOST_STEPS):
        data = tmp_path / str(step)
        path = thread_path(data, "inbox", "one")
        await talk(path)
        before = everything(data)
        was_killed = killed(step, partial(delete_thread, path))
        (data / "threads" / "inbox" / "one.lock").unlink(missing_ok=True)
        listed = ThreadIndex(data).scan()[0]
        if listed:
            assert everything(data) == before
        else:
            remains = path.with_suffix(".deleting").exists()
            assert [one.kind for one in verify(data)] == ["left_behind"] * remains
            match step % 3:
                case 0:
                    finish(data)
                case 1:
                    list(repair(data))
                case _:
                    settle(path)
            assert everything(data) == {}
            assert not delete_thread(path)
        outcomes.append(bool(listed))
        if not was_killed:
            break
    # It is there up to some step, and gone from the next one on.
    assert outcomes == sorted(outcomes, reverse=True)
    assert {True, False} == set(outcomes)


async def test_what_is_begun_where_a_deletion_was_killed_has_nothing_of_it(tmp_path: Path) -> None:
    for step in range(MOST_STEPS):
        data = tmp_path / str(step)
        path = thread_path(data, "inbox", "one")
        await talk(path)
        log = tmp_path / "log.jsonl"
        log.write_bytes(encode_line(Message("user", "afresh")) + b"\n")
        if not killed(step, partial(delete_thread, path)):
            break
        if not path.exists():
            import_file(log, path, pair=("inbox", "one"))
            assert [one.text for one in load(path).messages] == ["afresh"]
            assert list(everything(data)) == ["threads/inbox/one.jsonl"]
    assert step > 5


async def test_a_fork_that_was_killed_anywhere_leaves_nothing_that_lists(tmp_path: Path) -> None:
    for step in range(MOST_STEPS):
        data = tmp_path / str(step)
        source, into = thread_path(data, "inbox", "one"), thread_path(data, "inbox", "two")
        await talk(source)
        before = everything(data)
        was_killed = killed(step, partial(fork, source, into, pair=("inbox", "two")))
        into.with_suffix(".lock").unlink(missing_ok=True)
        if into.exists():
            assert list(export_lines(into)) == list(export_lines(source))
            assert [one.kind for one in verify(data)] == []
        else:
            assert [one.instance for one in ThreadIndex(data).scan()[0]] == ["one"]
            finish(data)
            assert everything(data) == before
            # And it can be made after all.
            fork(source, into, pair=("inbox", "two"))
            assert [one.kind for one in verify(data)] == []
        if not was_killed:
            break
    assert step > 5
