"""Threads as plain messages, in and out; and deleted ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.talks import talk, texts
from treadle.errors import (
    ConfigurationError,
    ThreadExists,
    ThreadLocked,
)
from treadle.thread.records import CompactedRecord
from treadle.thread.replay import load, skim
from treadle.thread.thread import Thread
from treadle.thread.transfer import export_lines, import_file
from treadle.thread.whole import delete_thread

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
