"""Rewinding and compacting: what a conversation holds then, and what a model and a reader see."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.talks import again, marks, talk, texts
from treadle.errors import (
    ConfigurationError,
    NoSuchOrdinal,
)
from treadle.thread.history import SUMMARY_MARK
from treadle.thread.message import Message, Usage
from treadle.thread.reading import Reading
from treadle.thread.records import CompactedRecord
from treadle.thread.replay import load
from treadle.thread.resume import resume
from treadle.thread.thread import Thread

COMPACTION = CompactedRecord(
    id="c1", through=5, keep=[(2, 2), (4, 5)], rewritten={4: "short"}, summary="we spoke"
)


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
