"""Rewinding, compacting, forking, moving in and out, deleting, keys and accepted messages."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from treadle.errors import (
    ConfigurationError,
    NoSuchOrdinal,
    ThreadExists,
    ThreadLocked,
    UnknownSession,
)
from treadle.thread.fork import fork
from treadle.thread.history import NOTE_MARK, SUMMARY_MARK
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.outcomes import TurnOutcome
from treadle.thread.reading import Reading
from treadle.thread.records import CompactedRecord, Forked, Note
from treadle.thread.replay import load, skim
from treadle.thread.resume import resume
from treadle.thread.thread import Thread
from treadle.thread.transfer import export_lines, import_file
from treadle.thread.whole import delete_thread

COMPACTION = CompactedRecord(
    id="c1", through=5, keep=[(2, 2), (4, 5)], rewritten={4: "short"}, summary="we spoke"
)


async def talk(thread: Thread, turns: int, first: int = 0) -> None:
    for number in range(first, first + turns):
        thread.start_turn()
        await thread.append(Message("user", f"ask {number}"))
        await thread.append(Message("assistant", f"answer {number}"))
        await thread.end_turn("end_turn", Usage(), 1)


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def again(thread: Thread) -> Thread:
    """Close a thread and open it anew."""
    assert thread.path is not None
    thread.close()
    return Thread.open(thread.path)


def marks(reading: Reading, start: int = 0, limit: int = 1000) -> list[tuple[int | None, str]]:
    page = reading.page(start, limit)
    return [
        (one.ordinal, "rewound" if one.rewound else "compacted" if one.compacted else "")
        for one in page.messages
    ]


async def test_a_rewound_thread_goes_on_from_there_and_keeps_its_ordinals(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, 2)
    left = await thread.rewind(1)
    await talk(thread, 1, 7)
    before = texts(thread.view())
    thread = again(thread)

    assert left == 2
    assert before == texts(thread.view()) == ["ask 0", "answer 0", "ask 7", "answer 7"]
    assert (thread.count, thread.turn_ordinals(thread.start_turn())) == (6, None)
    assert marks(thread.reading()) == [
        (0, ""), (1, ""), (2, "rewound"), (3, "rewound"), (4, ""), (5, ""),
    ]  # fmt: skip
    thread.close()


async def test_only_what_the_conversation_holds_can_be_rewound_to(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, 2)
    await thread.rewind(1)
    size = (tmp_path / "a.jsonl").stat().st_size
    for ordinal in (2, 99, -2):
        with pytest.raises(NoSuchOrdinal) as refused:
            await thread.rewind(ordinal)
        assert refused.value.reason == "no_such_ordinal"
    assert await thread.rewind(1) == 2
    assert (tmp_path / "a.jsonl").stat().st_size == size
    assert (await thread.rewind(-1), thread.view()) == (0, [])
    thread.start_turn()
    with pytest.raises(ConfigurationError, match="running"):
        await thread.rewind(-1)
    thread.close()


async def test_a_compacted_thread_is_opened_without_what_was_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    await talk(thread, 3)
    thread.start_turn()
    await thread.append(Message("user", "ask 3"))
    await thread.record_compaction(COMPACTION)
    await thread.append(Message("assistant", "answer 3"))
    view = [SUMMARY_MARK + "we spoke", "ask 1", "short", "answer 2", "ask 3", "answer 3"]

    assert texts(thread.view()) == view
    assert texts(thread.messages) == ["ask 1", "ask 2", "answer 2", "ask 3", "answer 3"]
    await thread.end_turn("end_turn", Usage(), 1)
    assert thread.turn_ordinals(4) == (6, 7)
    reading, numbers = thread.reading(), marks(thread.reading())
    thread = again(thread)

    assert not resume(path).is_whole
    assert texts(thread.view()) == view
    assert (thread.messages, thread.count, thread.turns) == (reading.messages, 8, 4)
    assert marks(thread.reading()) == marks(Reading.of_file(path)) == numbers
    assert numbers[:7] == [
        (0, "compacted"), (1, "compacted"), (2, ""), (3, "compacted"), (4, "compacted"), (5, ""),
        (6, ""),
    ]  # fmt: skip
    assert [one.made for one in thread.reading().view()] == ["summary", *[None] * 5]
    thread.close()


async def test_what_was_given_up_is_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    await talk(thread, 3)
    await thread.record_compaction(COMPACTION)
    await talk(thread, 1, 3)
    thread.close()
    whole = load(path)
    view = texts(thread.view())
    # Bytes that no hint covers are changed to something unreadable of the same length.
    data = bytearray(path.read_bytes())
    data[data.index(b"ask 0") : data.index(b"ask 0") + 5] = b"\xff" * 5
    path.write_bytes(data)
    monkeypatch.setattr("treadle.thread.resume.SEARCH_BYTES", 64)
    found = resume(path)

    assert (found.is_whole, found.report.quarantined_lines) == (False, 0)
    assert found.history.held == whole.history.held
    thread = Thread.open(path)
    assert texts(thread.view()) == view
    thread.close()


async def test_a_hint_that_does_not_fit_costs_time_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    await talk(thread, 3)
    await thread.record_compaction(COMPACTION)
    await talk(thread, 1, 3)
    thread.close()
    sound, view = path.read_bytes(), texts(thread.view())
    record = sound.index(b'{"compacted"')
    odd = [
        sound.replace(b"answer 0", b"answer nought"),
        sound.replace(b'"turns":3', b'"turns":"3"'),
        sound.replace(b'"spans"', b'"spans!"'),
        sound.replace(b'"held":[[0,5]]', b'"held":[[0,99]]'),
        sound[:record] + sound[record:].replace(b'"resume":{', b'"resume!":{', 1),
    ]
    for content in odd:
        assert content != sound
        path.write_bytes(content)
        assert resume(path).is_whole
        thread = Thread.open(path)
        assert texts(thread.view()) == view
        thread.close()


async def test_a_rewind_to_before_a_compaction_brings_back_what_it_gave_up(tmp_path: Path) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, 3)
    await thread.record_compaction(COMPACTION)
    await talk(thread, 1, 3)
    thread = again(thread)

    assert await thread.rewind(3) == 4
    said = ["ask 0", "answer 0", "ask 1", "answer 1"]
    assert texts(thread.view()) == said
    assert thread.count == 8
    thread = again(thread)
    assert texts(thread.view()) == said
    await talk(thread, 1, 9)
    assert marks(thread.reading(), 4)[-2:] == [(8, ""), (9, "")]
    thread.close()


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (CompactedRecord(through=99), NoSuchOrdinal),
        (CompactedRecord(through=3, keep=[(2, 4)]), ConfigurationError),
        (CompactedRecord(through=3, keep=[(2, 3), (1, 1)]), ConfigurationError),
        (CompactedRecord(through=3, keep=[(2, 3)], rewritten={1: "x"}), ConfigurationError),
    ],
)
async def test_a_compaction_that_cannot_be_is_refused(
    record: CompactedRecord, error: type[Exception], tmp_path: Path
) -> None:
    thread = Thread.open(tmp_path / "a.jsonl")
    await talk(thread, 2)
    size = (tmp_path / "a.jsonl").stat().st_size
    with pytest.raises(error):
        await thread.record_compaction(record)
    assert (tmp_path / "a.jsonl").stat().st_size == size
    await thread.record_compaction(CompactedRecord(through=3, keep=[(3, 3)]))
    with pytest.raises(NoSuchOrdinal, match="gave up"):
        await thread.record_compaction(CompactedRecord(through=3, keep=[(2, 3)]))
    thread.close()


async def test_a_thread_in_memory_is_rewound_and_compacted_alike() -> None:
    thread = Thread.in_memory()
    await talk(thread, 3)
    await thread.record_compaction(COMPACTION)
    other = Thread.in_memory(after=thread)
    await other.rewind(1)

    assert texts(thread.view()) == [SUMMARY_MARK + "we spoke", "ask 1", "short", "answer 2"]
    assert texts(other.view()) == ["ask 0", "answer 0"]
    assert marks(thread.reading())[0] == (0, "compacted")


async def test_pages_show_everything_that_was_said_without_the_whole_in_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    thread = Thread.open(path)
    await talk(thread, 4)
    await thread.record_compaction(COMPACTION)
    await thread.rewind(6)
    await talk(thread, 1, 4)
    for reading in (thread.reading(), Reading.of_file(path)):
        start: int | None = 0
        seen: list[tuple[int | None, str]] = []
        while start is not None:
            page = reading.page(start, 3)
            seen += marks(reading, start, 3)
            start = page.next_start
        assert seen == marks(reading)
        assert [ordinal for ordinal, _ in seen] == list(range(10))
        assert seen[7] == (7, "rewound")
        assert reading.page(99, 3).messages == []
        assert texts([one.message for one in reading.view()]) == texts(thread.view())
    thread.close()


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


BRUTE = [
    b'{"role":"user","content":"list \\u00e9 files"}',
    b'{"role":"assistant","content":"","tool_calls":[{"id":"tc1","name":"shell",'
    b'"arguments":{"command":"ls","deep":{"n":[1,2.5,null]}},"mood":"calm"}],"seal":{"a":1}}',
    b'{"role":"tool","content":"a\\nb\xe2\x80\xa8","tool_call_id":"tc1","took_ms":3}',
    b'{"role":"assistant","content":"two files"}',
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
async def test_a_log_of_plain_messages_goes_in_and_comes_out_equal(
    end: bytes, tmp_path: Path
) -> None:
    log, path = tmp_path / "log", tmp_path / "a.jsonl"
    log.write_bytes(b"\xef\xbb\xbf" + end.join(BRUTE))
    imported = import_file(log, path, pair=("inbox", "mac"))
    exported = list(export_lines(path))

    assert (imported.messages, imported.bad_lines) == (4, [])
    assert exported == BRUTE
    thread = Thread.open(path)
    assert (thread.count, thread.report.quarantined_lines) == (4, 0)
    await talk(thread, 1)
    assert list(export_lines(path))[:4] == BRUTE
    await thread.rewind(0)
    await thread.record_compaction(CompactedRecord(through=0, summary="all"))
    assert list(export_lines(path)) == BRUTE[:1]
    thread.close()


def test_lines_that_are_no_messages_are_refused_by_number_or_skipped(tmp_path: Path) -> None:
    log, path = tmp_path / "log", tmp_path / "a.jsonl"
    system = b'{"role":"system","content":"be kind"}'
    other = b'{"content": "hi", "role": "user"}'
    log.write_bytes(b"\n".join([BRUTE[0], b"{", b"", b'{"turn":{"number":1}}', system, other]))

    with pytest.raises(ConfigurationError, match=r"line 2: .*line 4: ") as refused:
        import_file(log, path)
    assert refused.value.data == {"lines": [2, 4]}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log"]

    imported = import_file(log, path, skips_bad_lines=True)
    assert (imported.messages, imported.instructions) == (2, 1)
    assert [number for number, _ in imported.bad_lines] == [2, 4]
    assert [json.loads(line) for line in export_lines(path)] == [
        json.loads(BRUTE[0]), json.loads(other),
    ]  # fmt: skip
    assert len(skim(path).ordinals) == 2
    with pytest.raises(ConfigurationError, match="No such file"):
        import_file(tmp_path / "none", tmp_path / "b.jsonl")
    with pytest.raises(ThreadExists):
        import_file(log, path, skips_bad_lines=True)


async def test_a_deleted_thread_leaves_nothing_and_is_never_one_that_is_held(
    tmp_path: Path,
) -> None:
    path = tmp_path / "threads" / "a.jsonl"
    thread = Thread.open(path)
    await talk(thread, 1)
    path.with_suffix(".damaged").write_bytes(b"x")
    with pytest.raises(ThreadLocked) as held:
        delete_thread(path)
    assert held.value.data == {"pid": os.getpid()}
    assert texts(load(path).messages) == ["ask 0", "answer 0"]
    thread.close()

    assert [delete_thread(path), delete_thread(path)] == [True, False]
    assert list(path.parent.iterdir()) == []
    assert not delete_thread(tmp_path / "nowhere" / "a.jsonl")
    assert not (tmp_path / "nowhere").exists()
