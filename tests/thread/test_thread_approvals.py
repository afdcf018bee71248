"""What a thread keeps of asking a person, and what a kill in the middle of that leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.secrets import Secrets
from treadle.thread import redaction
from treadle.thread.fork import fork
from treadle.thread.message import Message, ToolCall
from treadle.thread.records import APPROVAL_START, ApprovalRecord, decode_record
from treadle.thread.repair import INTERRUPTED_TEXT, NEVER_ALLOWED_TEXT
from treadle.thread.thread import Thread
from treadle.thread.transfer import export_lines
from treadle.thread.verify import verify_thread

ASKED = ApprovalRecord("1", "write", "d1", "asked", "2026-01-01T00:00:00Z")


def answered(outcome: str, by: str = "client") -> ApprovalRecord:
    return ApprovalRecord("1", "write", "d1", outcome, "2026-01-01T00:00:01Z", by)


def approvals(path: Path) -> list[ApprovalRecord]:
    lines = path.read_bytes().splitlines()
    found = [decode_record(line).approval for line in lines if line.startswith(APPROVAL_START)]
    return [record for record in found if record is not None]


async def killed_after(path: Path, *records: ApprovalRecord) -> list[str]:
    """Leave a turn with two calls and some approvals; return the results that loading gives."""
    thread = Thread.open(path)
    thread.start_turn()
    await thread.append(Message("user", "go"))
    calls = [ToolCall("1", "write"), ToolCall("2", "read")]
    await thread.append(Message("assistant", tool_calls=calls))
    for record in records:
        assert await thread.record_approval(record)
    thread.close()
    again = Thread.open(path)
    again.close()
    return [message.text for message in again.messages if message.role == "tool"]


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], INTERRUPTED_TEXT),
        ([ASKED], NEVER_ALLOWED_TEXT),
        ([ASKED, answered("deny")], NEVER_ALLOWED_TEXT),
        ([answered("deny", "nobody")], NEVER_ALLOWED_TEXT),
        ([ASKED, answered("allow_once")], INTERRUPTED_TEXT),
        ([ASKED, answered("allow_session")], INTERRUPTED_TEXT),
        ([ASKED, answered("allow_the_moon")], NEVER_ALLOWED_TEXT),
    ],
)
async def test_a_call_that_was_not_allowed_before_a_kill_is_closed_as_one_that_did_not_run(
    tmp_path: Path, records: list[ApprovalRecord], text: str
) -> None:
    path = tmp_path / "t.jsonl"

    assert await killed_after(path, *records) == [text, INTERRUPTED_TEXT]
    assert approvals(path) == records


async def test_an_approval_of_an_earlier_turn_says_nothing_of_a_later_one(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    await killed_after(path, ASKED)

    assert (await killed_after(path))[2:] == [INTERRUPTED_TEXT, INTERRUPTED_TEXT]


async def test_approvals_are_no_messages_and_nothing_is_wrong_with_them(tmp_path: Path) -> None:
    path = tmp_path / "data" / "threads" / "a" / "t.jsonl"
    await killed_after(path, ASKED, answered("allow_once"))

    thread = Thread.open(path)
    assert [message.role for message in thread.messages] == ["user", "assistant", "tool", "tool"]
    assert thread.report.quarantined_lines == 0
    thread.close()
    assert not any(b"approval" in line for line in export_lines(path))
    copy = tmp_path / "copy.jsonl"
    fork(path, copy, at=None, origin=("a", "t"), pair=("a", "copy"))
    assert approvals(copy) == []
    kinds = {finding.kind for finding in verify_thread(tmp_path / "data", path)}
    assert kinds <= {"unknown_pair"}


async def test_a_secret_in_a_calls_id_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = Secrets((("A_TOKEN", "sk-4711-0815"),))
    monkeypatch.setattr(redaction, "known", lambda: secrets)
    thread = Thread.open(tmp_path / "t.jsonl")
    await thread.record_approval(ApprovalRecord("call-sk-4711-0815", "write"))
    thread.close()

    (record,) = approvals(tmp_path / "t.jsonl")
    assert record == ApprovalRecord("call-[secret A_TOKEN]", "write")
