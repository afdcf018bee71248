"""A thread from opening to closing, as its users see it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import pytest

from treadle.errors import ConfigurationError, ThreadLocked, ThreadUnreadable
from treadle.thread.loaded import LoadReport
from treadle.thread.lock import holder
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.records import RecordLine, ThreadRecord, TurnRecord, decode_record
from treadle.thread.repair import interrupted_result
from treadle.thread.replay import load
from treadle.thread.thread import Thread

HI = Message("user", "hi", at="2026-01-01T00:00:00.000Z", turn=1)


@pytest.fixture
def odd_umask() -> Iterator[None]:
    before = os.umask(0o277)
    yield
    os.umask(before)


async def test_what_was_said_is_there_when_the_thread_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path, agent="inbox", instance="mac")
    created, number = thread.created, thread.start_turn()
    said = [
        await thread.append(Message("user", "read a")),
        await thread.append(Message("assistant", "", [ToolCall("1", "read", {"path": "a"})])),
        await thread.append(Message("tool", "x\u2028y\x00", tool_call_id="1")),
        await thread.append(Message("assistant", "done", usage=Usage(3, 4))),
    ]
    await thread.end_turn("end_turn", Usage(3, 4), 2)
    thread.close()
    again = Thread.open(path)

    assert (created, number) == (True, 1)
    assert again.messages == thread.messages == said == again.view()
    assert all(message.turn == 1 and message.at.endswith("Z") for message in said)
    assert (again.created, again.turns, again.report) == (False, 1, LoadReport())
    assert again.start_turn() == 2
    again.close()


async def test_the_file_tells_whose_thread_it_is_and_how_its_turns_went(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl", agent="inbox", instance="mac")
    thread.start_turn()
    await thread.append(HI)
    await thread.end_turn("max_turns", Usage(3), 1)
    thread.close()

    header, start, message, end = (tmp_path / "a.jsonl").read_bytes().splitlines()
    created = decode_record(header).thread
    assert created == ThreadRecord(1, "inbox", "mac", created.created if created else "")
    assert message == msgspec.json.encode(HI)
    assert [without_time(decode_record(line)) for line in (start, end)] == [
        TurnRecord(1, "start"),
        TurnRecord(1, "end", "", "max_turns", Usage(3), 1),
    ]


async def test_a_message_is_on_disk_before_append_returns(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    for number in range(3):
        said = await thread.append(Message("user", str(number)))
        assert load(tmp_path / "a.jsonl").messages[-1] == said
    thread.close()


async def test_memory_holds_exactly_what_loading_would_give_back(tmp_path: Path) -> None:
    thread, twin = Thread.open(tmp_path / "a.jsonl"), Thread.in_memory()
    odd = Message(
        "assistant",
        "a\ud800",
        [ToolCall("1", "n", {"\udc00": [2**70, float("nan")]})],
        at=HI.at,
        extra={"later": "\ud800"},
    )

    kept = await thread.append(odd)

    assert kept.content == "a\ufffd"
    assert load(tmp_path / "a.jsonl").messages == thread.messages == [kept]
    assert await twin.append(odd) == kept
    thread.close()


@pytest.mark.parametrize(
    "message",
    [
        Message("user", extra={"x": object()}),
        Message("robot", "hi"),  # type: ignore[arg-type]  # what a careless caller may do
        Message("user", None),  # type: ignore[arg-type]  # the same
    ],
)
async def test_a_message_that_could_not_be_read_back_is_refused(
    message: Message, tmp_path: Path
) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    before = (tmp_path / "a.jsonl").read_bytes()

    with pytest.raises(ConfigurationError):
        await thread.append(message)

    assert (tmp_path / "a.jsonl").read_bytes() == before
    assert thread.messages == []
    thread.close()


async def test_a_thread_in_memory_behaves_alike_and_leaves_no_file() -> None:
    thread = Thread.in_memory()
    number = thread.start_turn()
    await thread.append(HI)
    await thread.end_turn("end_turn", Usage(), 1)

    assert (thread.path, thread.created, number, thread.turns) == (None, True, 1, 1)
    assert thread.view() == thread.messages == [HI]
    thread.close()


async def test_a_closed_thread_says_nothing_and_is_free(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    thread.close()
    thread.close()

    with pytest.raises(ConfigurationError, match="closed"):
        await thread.append(HI)
    with pytest.raises(ConfigurationError, match="closed"):
        thread.start_turn()
    assert not (tmp_path / "a.lock").exists()
    Thread.open(tmp_path / "a.jsonl").close()


def test_a_thread_is_private_whatever_the_umask(tmp_path: Path, odd_umask: None) -> None:
    path = tmp_path / "data" / "threads" / "a" / "b.jsonl"
    path.parent.parent.parent.mkdir()
    path.parent.parent.parent.chmod(0o755)
    thread = Thread.open(path)

    assert [mode(path), mode(path.with_suffix(".lock"))] == [0o600, 0o600]
    assert [mode(path.parent), mode(path.parent.parent)] == [0o700, 0o700]
    assert mode(path.parent.parent.parent) == 0o755
    thread.close()


def test_a_thread_that_is_open_is_locked_for_others_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)

    with pytest.raises(ThreadLocked):
        Thread.open(path)
    assert load(path).header is not None
    assert holder(path) == os.getpid()
    thread.close()


async def test_a_deleted_file_starts_the_thread_afresh_at_the_next_turn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path, agent="inbox", instance="mac")
    messages = thread.messages
    thread.start_turn()
    await thread.append(HI)
    path.unlink()
    await thread.append(Message("assistant", "hello"))
    await thread.end_turn("end_turn", Usage(), 1)

    assert thread.start_turn() == 1
    said = await thread.append(Message("user", "who am I?"))

    assert thread.messages is messages
    assert thread.messages == load(path).messages == [said]
    assert load(path).header == ThreadRecord(1, "inbox", "mac", at_of(path))
    assert (thread.created, holder(path)) == (True, os.getpid())
    thread.close()


async def test_a_file_that_was_replaced_is_taken_as_it_is(tmp_path: Path) -> None:
    path, edited = tmp_path / "a.jsonl", tmp_path / "edited"
    thread = Thread.open(path)
    thread.start_turn()
    await thread.append(Message("user", "forget me"))
    await thread.end_turn("end_turn", Usage(), 1)
    edited.write_bytes(b'{"role":"user","content":"edited","turn":7}')
    edited.replace(path)

    assert thread.start_turn() == 8
    assert [message.text for message in thread.messages] == ["edited"]
    said = await thread.append(Message("user", "and on"))
    assert load(path).messages[1:] == [said]
    thread.close()


@pytest.mark.parametrize(
    ("saved", "texts"),
    [
        (b"", []),
        (b'{"role":"user","content":"edited"}\n', ["edited"]),
        (b'{"role":"user","content":"edited"}\n{"role":"us', ["edited"]),
        (b'\xef\xbb\xbf{"role":"user","content":"edited"}\r\n' + b"junk\r\n" * 99, ["edited"]),
    ],
)
async def test_a_file_that_an_editor_saved_in_place_is_taken_as_it_is(
    tmp_path: Path, saved: bytes, texts: list[str]
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    thread.start_turn()
    await thread.append(Message("user", "forget me"))
    await thread.end_turn("end_turn", Usage(), 1)
    path.write_bytes(saved)

    thread.start_turn()
    assert [message.text for message in thread.messages] == texts
    said = await thread.append(Message("user", "and on"))
    await thread.end_turn("end_turn", Usage(), 1)
    assert load(path).messages[len(texts) :] == [said]
    assert load(path).unfinished is None
    thread.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open is not replaced there")
async def test_what_is_said_after_a_file_was_replaced_in_a_turn_is_in_the_new_one(
    tmp_path: Path,
) -> None:
    path, saved = tmp_path / "a.jsonl", tmp_path / "saved"
    thread = Thread.open(path, agent="a", instance="b")
    thread.start_turn()
    await thread.append(HI)
    saved.write_bytes(path.read_bytes().replace(b'"hi"', b'"hello"'))
    saved.replace(path)
    await thread.append(Message("assistant", "more"))
    await thread.end_turn("end_turn", Usage(), 1)
    assert thread.storage == "ok"
    thread.close()

    loaded = load(path)
    assert [message.text for message in loaded.messages] == ["hello", "more"]
    assert (loaded.unfinished, loaded.report) == (None, LoadReport())


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open is not moved there")
async def test_a_file_that_was_moved_away_in_a_turn_takes_the_rest_of_it_along(
    tmp_path: Path,
) -> None:
    path, moved = tmp_path / "a.jsonl", tmp_path / "moved"
    thread = Thread.open(path)
    thread.start_turn()
    await thread.append(HI)
    path.rename(moved)
    await thread.append(Message("assistant", "more"))
    await thread.end_turn("end_turn", Usage(), 1)
    assert (thread.storage, thread.start_turn()) == ("ok", 1)
    thread.close()
    assert [message.text for message in load(moved).messages] == ["hi", "more"]


async def test_half_a_line_that_an_editor_left_in_a_turn_swallows_no_message(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    thread.start_turn()
    await thread.append(HI)
    path.write_bytes(path.read_bytes()[:-7])
    said = [await thread.append(Message("assistant", text)) for text in ("one", "two")]
    await thread.end_turn("end_turn", Usage(), 1)
    assert load(path).messages == said
    assert (load(path).report.quarantined_lines, load(path).unfinished) == (1, None)
    thread.close()


async def test_a_turn_that_a_kill_left_open_is_closed_with_its_calls_answered(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(
        path,
        b'{"thread":{"version":1}}',
        b'{"turn":{"number":4,"event":"start"}}',
        b'{"role":"assistant","tool_calls":[{"id":"1","name":"a"},{"id":"2","name":"b"}],"turn":4}',
        b'{"role":"tool","content":"ok","tool_call_id":"1","turn":4}',
    )
    before = load(path)
    thread = Thread.open(path)
    thread.close()

    filled = thread.messages[-1]
    assert (before.unfinished, before.report) == (4, LoadReport())
    assert thread.report == LoadReport(repaired_calls=1, interrupted_turn=4)
    assert filled == msgspec.structs.replace(
        interrupted_result(ToolCall("2", "b")), at=filled.at, turn=4
    )
    assert thread.view() == thread.messages == load(path).messages
    assert (load(path).unfinished, load(path).turns) == (None, 4)
    assert without_time(decode_record(path.read_bytes().splitlines()[-1])) == TurnRecord(
        4, "end", "", "interrupted"
    )
    again = Thread.open(path)
    assert (again.report, again.start_turn()) == (LoadReport(), 5)
    again.close()


def test_a_thread_of_a_newer_version_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, b'{"thread":{"version":2}}', b'{"role":"user","content":"hi"}', b'{"role":')
    before = path.read_bytes()

    with pytest.raises(ThreadUnreadable, match="version 2") as caught:
        Thread.open(path)

    assert caught.value.data == {"path": str(path)}
    assert path.read_bytes() == before
    assert load(path).messages == [Message("user", "hi")]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


def test_what_cannot_be_a_thread_is_told_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))

    for name in ("folder", "file/a.jsonl", "pipe"):
        for opener in (Thread.open, load):
            with pytest.raises(ThreadUnreadable) as caught:
                opener(tmp_path / name)
            assert caught.value.data == {"path": str(tmp_path / name)}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_we_may_not_read_is_unreadable_and_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, b'{"role":"user","content":"hi"}')

    def refuse(self: Path, mode: str = "r", buffering: int = -1) -> IO[bytes]:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        with pytest.raises(ThreadUnreadable, match="Permission denied"):
            Thread.open(path)

    assert holder(path) is None
    thread = Thread.open(path)
    assert [message.text for message in thread.messages] == ["hi"]
    thread.close()


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_empty_file_is_a_new_thread(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_bytes(content)
    thread = Thread.open(path)
    thread.close()

    assert (thread.created, thread.messages, thread.turns) == (True, [], 0)
    assert load(path).header is not None


def write_lines(path: Path, *lines: bytes) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines[:-1]) + lines[-1])


def without_time(line: RecordLine) -> TurnRecord:
    assert line.turn is not None
    assert line.turn.at
    return msgspec.structs.replace(line.turn, at="")


def at_of(path: Path) -> str:
    header = load(path).header
    assert header is not None
    assert header.created
    return header.created


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
