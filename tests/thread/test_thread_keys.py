"""Keys of prompts and accepted messages, in the file and in memory."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from support.disk import Disk
from support.talks import again, talk, texts
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.outcomes import TurnOutcome
from treadle.thread.records import CompactedRecord
from treadle.thread.thread import Thread


async def test_a_keyed_prompt_is_answered_from_the_records(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, 1)
    thread.start_turn("k", "digest")
    running = thread.outcome_of("k")
    await thread.append(Message("user", "ask"))
    await thread.append(Message("assistant", "", [ToolCall("1", "read")]))
    await thread.append(Message("tool", "x", tool_call_id="1"))
    await thread.append(Message("assistant", "the answer"))
    await thread.end_turn("max_turns", Usage(3, 4), 2)
    thread.start_turn("bad")
    await thread.append(Message("user", "ask"))
    await thread.end_turn("error", Usage(), 0)
    outcome = TurnOutcome("digest", 2, "the answer", "max_turns", Usage(3, 4), 2, (2, 5))
    await thread.record_compaction(CompactedRecord(through=6, summary="all"))

    assert running is None
    for _ in range(2):
        assert thread.outcome_of("k") == outcome
        assert (thread.outcome_of("bad"), thread.outcome_of("other")) == (None, None)
        thread = again(thread)
    thread.start_turn("bad", "x")
    await thread.append(Message("user", "ask"))
    thread = again(thread)
    assert thread.outcome_of("bad") == TurnOutcome("x", 4, "", "interrupted", Usage(), 0, (7, 7))
    thread.close()


async def test_a_keyed_prompt_of_a_thread_in_memory_is_answered_too() -> None:
    thread = Thread.in_memory()
    thread.start_turn("k", "digest")
    await thread.append(Message("assistant", "yes"))
    await thread.end_turn("end_turn", Usage(1), 1)
    outcome = TurnOutcome("digest", 1, "yes", "end_turn", Usage(1), 1, (0, 0))
    assert Thread.in_memory(after=thread).outcome_of("k") == thread.outcome_of("k") == outcome


async def test_an_accepted_message_survives_a_kill_and_is_said_once(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    thread.start_turn()
    await thread.append(Message("user", "go"))
    first, second = thread.accept(Message("user", "a\ud800")), thread.accept(Message("user", "go"))
    await thread.append(Message("assistant", "", [ToolCall("1", "read")]))
    await thread.append(first)
    # What a kill leaves: the file as it is now.
    killed = tmp_path / "killed.jsonl"
    killed.write_bytes((tmp_path / "a.jsonl").read_bytes())
    reopened = Thread.open(killed)
    twice = again(reopened)

    assert texts(reopened.messages) == ["go", "", "a\ufffd", "go"]
    assert reopened.messages[-1].at == second.at
    assert {message.turn for message in reopened.messages} == {1}
    assert twice.messages == reopened.messages
    twice.close()
    await thread.end_turn("cancelled", Usage(), 1)
    assert texts(thread.messages) == ["go", "", "a\ufffd", "go"]
    assert texts(again(thread).messages) == texts(thread.messages)


@pytest.mark.parametrize("heals", ["before", "after", "at the end"])
async def test_a_turn_that_begins_on_a_full_disk_and_is_compacted_is_answered_whole(
    heals: str, tmp_path: Path, disk: Disk
) -> None:
    async def heal() -> None:
        disk.error = None
        await thread.recover()

    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, 1)
    first = thread.count
    disk.error = errno.ENOSPC
    thread.start_turn("k", "digest")
    await thread.append(Message("user", "ask"))
    await thread.append(Message("assistant", "the answer"))
    if heals == "before":
        await heal()
    await thread.record_compaction(CompactedRecord(through=first + 1, summary="all"))
    if heals == "after":
        await heal()
    await thread.append(Message("user", "more"))
    assert thread.turn_ordinals(2) == (first, first + 2)
    await thread.end_turn("cancelled", Usage(3, 4), 2)

    places = (first, first + 2)
    outcome = TurnOutcome("digest", 2, "the answer", "cancelled", Usage(3, 4), 2, places)
    assert thread.outcome_of("k") == outcome
    await heal()
    assert thread.outcome_of("k") == outcome
    reopened = again(thread)
    assert reopened.outcome_of("k") == outcome and reopened.last == first + 2
    reopened.close()
