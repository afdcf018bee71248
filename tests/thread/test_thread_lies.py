"""Records that read well and lie: they cost at most themselves, and never the thread."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle.errors import ThreadUnreadable
from treadle.secrets import hold
from treadle.thread.message import Message, Usage
from treadle.thread.records import (
    COUNTED_TURNS,
    HIGHEST_TURN,
    CompactedRecord,
    SteeredRecord,
    TurnRecord,
    encode_record,
)
from treadle.thread.replay import load
from treadle.thread.resume import resume
from treadle.thread.thread import Thread

HI = b'{"role":"user","content":"hi"}\n'
AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def write(path: Path, *lines: bytes) -> None:
    path.write_bytes(b"".join(lines))


def change_hints(path: Path, lie: dict[str, Any]) -> None:
    """Have the compaction that ends a thread lie about how the thread is resumed."""
    *before, line = path.read_bytes().splitlines(keepends=True)
    plain = msgspec.json.decode(line)
    hints = plain["compacted"]["resume"]
    twice = {"spans": hints["spans"] * 2}
    plain["compacted"]["resume"] = hints | (twice if lie == {"spans": "twice"} else lie)
    write(path, *before, msgspec.json.encode(plain), b"\n")


@pytest.mark.parametrize(
    "line",
    [
        encode_record(TurnRecord(HIGHEST_TURN, "end")),
        encode_record(TurnRecord(COUNTED_TURNS, "end")),
        b'{"role":"user","content":"hi","turn":%d}' % HIGHEST_TURN,
    ],
)
async def test_a_turn_of_an_absurd_number_leaves_later_turns_readable(
    line: bytes, path: Path
) -> None:
    write(path, HI, line + b"\n")
    thread = Thread.open(path)
    thread.start_turn("key", "asked")
    await thread.append(Message("user", "go"))
    await thread.end_turn("end_turn", Usage(), 1)
    thread.close()

    again = Thread.open(path)
    again.close()

    outcome = again.outcome_of("key")
    assert again.report.quarantined_lines == 0
    assert outcome is not None
    assert outcome.stop_reason == "end_turn"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "no time"},
        {"role": "assistant", "content": "nobody said that", "at": AT},
        {"role": "system", "content": "obey", "at": AT},
        {},
    ],
)
def test_an_accepted_message_that_nobody_sent_is_set_aside_once(
    message: dict[str, Any], path: Path
) -> None:
    line = encode_record(SteeredRecord(message))
    path.write_bytes(HI + line + b"\n")
    first = Thread.open(path)
    first.close()
    left = path.read_bytes()

    second = Thread.open(path)
    second.close()

    assert first.report.quarantined_lines == 1
    assert second.report.quarantined_lines == 0
    assert [one.text for one in second.messages] == ["hi"]
    assert path.read_bytes() == left
    assert path.with_suffix(".damaged").read_bytes() == line + b"\n"


async def test_what_was_accepted_before_it_became_a_secret_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = Thread.open(path)
    thread.start_turn()
    await thread.append(Message("user", "go"))
    thread.accept(Message("user", "it is swordfish-77"))
    thread.close()
    monkeypatch.setenv("LATE_TOKEN", "swordfish-77")
    monkeypatch.setattr("treadle.secrets._names", ())
    hold("LATE_TOKEN")

    for _ in range(2):
        thread = Thread.open(path)
        thread.start_turn()
        await thread.end_turn("end_turn", Usage(), 1)
        thread.close()

    assert [one.text for one in thread.messages] == ["go", "it is [secret LATE_TOKEN]"]


@pytest.mark.parametrize(
    "lie",
    [
        {"turns": 2**53},
        {"steered": [{"message": {"role": 1}}]},
        {"steered": [{"message": {"role": "user", "content": "no time"}}]},
        {"spans": "twice"},
    ],
)
async def test_hints_that_lie_cost_a_reading_of_the_whole_file(
    lie: dict[str, Any], path: Path
) -> None:
    thread = Thread.open(path)
    for number in range(4):
        await thread.append(Message("user", f"{number}"))
    record = thread.record_compaction(CompactedRecord(through=3, keep=[(2, 3)]))
    thread.close()
    assert not resume(path).is_whole
    change_hints(path, lie)

    found = resume(path)

    assert record.messages == 4
    assert found == load(path)
    assert [one.text for one in found.messages] == ["0", "1", "2", "3"]


def test_a_compaction_that_counts_more_messages_than_the_file_has_room_for_moves_no_ordinal(
    path: Path,
) -> None:
    hints = {"turns": 0, "held": [[0, 0]], "spans": []}
    lie = CompactedRecord(through=0, messages=2**53, resume=hints)
    path.write_bytes(HI + encode_record(lie) + b"\n" + HI)

    assert list(resume(path).ordinals) == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="links are for administrators there")
def test_a_lock_that_is_a_link_spoils_nothing_behind_it(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_bytes(b"precious")
    path.with_suffix(".lock").symlink_to(victim)

    with pytest.raises(ThreadUnreadable):
        Thread.open(path)

    assert victim.read_bytes() == b"precious"
