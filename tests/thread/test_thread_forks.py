"""Forks: what they hold, where they come from and where they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.talks import marks, talk, texts
from treadle.errors import (
    NoSuchOrdinal,
    ThreadExists,
    UnknownSession,
)
from treadle.thread.fork import fork
from treadle.thread.history import NOTE_MARK, SUMMARY_MARK
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.records import CompactedRecord, Forked, Note
from treadle.thread.replay import load
from treadle.thread.resume import resume
from treadle.thread.thread import Thread


async def test_a_fork_holds_the_conversation_and_says_where_it_comes_from(tmp_path: Path) -> None:
    source, into = tmp_path / "a.jsonl", tmp_path / "b" / "b.jsonl"
    thread = Thread.open(source)
    await talk(thread, 2)
    await thread.rewind(1)
    await talk(thread, 2, 5)
    before = source.read_bytes()
    copied = fork(source, into, at=5, origin=("inbox", "mac"), pair=("inbox", "two"))

    assert (copied.at, copied.messages) == (5, 4)
    assert source.read_bytes() == before
    other = Thread.open(into)
    assert texts(other.view()) == ["ask 0", "answer 0", "ask 5", "answer 5"]
    header = load(into).header
    assert header is not None
    assert (header.agent, header.instance) == ("inbox", "two")
    assert header.forked == Forked("inbox", "mac", 5)
    assert (other.count, other.turns) == (4, 3)
    assert sorted(entry.name for entry in into.parent.iterdir()) == ["b.jsonl", "b.lock"]
    with pytest.raises(ThreadExists):
        fork(source, into)
    other.close()
    with pytest.raises(ThreadExists) as there:
        fork(source, into)
    assert there.value.data == {"path": str(into)}
    for ordinal in (2, 99):
        with pytest.raises(NoSuchOrdinal):
            fork(source, tmp_path / "c.jsonl", at=ordinal)
    with pytest.raises(UnknownSession):
        fork(tmp_path / "none.jsonl", tmp_path / "c.jsonl")
    assert not (tmp_path / "c.jsonl").exists()
    assert fork(source, tmp_path / "c.jsonl", at=-1).messages == 0
    thread.close()


async def test_a_fork_takes_the_compaction_along(tmp_path: Path) -> None:
    source, into = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    thread = Thread.open(source)
    await talk(thread, 1)
    await thread.rewind(-1)
    await talk(thread, 3)
    await thread.record_compaction(
        CompactedRecord(
            through=7,
            keep=[(4, 4), (6, 7)],
            rewritten={6: "short"},
            notes=[Note(6, "one gone")],
            summary="we spoke",
        )
    )
    await talk(thread, 1, 3)
    fork(source, into)
    other = Thread.open(into)

    assert texts(other.view()) == texts(thread.view())
    assert texts(other.view())[:4] == [
        SUMMARY_MARK + "we spoke", "ask 1", NOTE_MARK + "one gone", "short",
    ]  # fmt: skip
    assert not resume(into).is_whole
    assert marks(other.reading())[:3] == [(0, "compacted"), (1, "compacted"), (2, "")]
    other.close()
    thread.close()


async def test_a_fork_of_a_running_session_ends_with_its_last_finished_step(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    thread = Thread.open(source)
    await talk(thread, 1)
    thread.start_turn()
    said: list[int] = []

    async def say(message: Message) -> None:
        await thread.append(message)
        said.append(fork(source, tmp_path / f"{len(said)}.jsonl").at)

    await say(Message("user", "two reads"))
    await say(Message("assistant", "", [ToolCall("1", "read"), ToolCall("2", "read")]))
    await say(Message("tool", "x", tool_call_id="2"))
    await say(Message("tool", "y", tool_call_id="1"))
    await say(Message("user", "and now?"))
    await say(Message("assistant", "done"))
    await thread.end_turn("end_turn", Usage(), 2)

    assert said == [1, 1, 1, 5, 5, 7]
    assert texts(load(tmp_path / "3.jsonl").messages) == texts(thread.messages[:6])
    thread.close()
