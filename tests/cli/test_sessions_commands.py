"""`treadle sessions`: shown, moved in and out, deleted, verified and repaired by a person."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.person import stored
from support.waiting import PATIENCE_SECONDS
from treadle.thread.lock import ThreadLock
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.records import CompactedRecord
from treadle.thread.replay import load
from treadle.thread.thread import Thread

HERE = ("-a", "inbox", "-i", "mac")

# A log as Brute writes it: no turns, no times, keys that we do not know.
BRUTE = (
    b'{"role":"user","content":"list \\u00e9 files"}\n'
    b'{"role":"assistant","content":"","tool_calls":[{"id":"tc1","name":"shell",'
    b'"arguments":{"command":"ls","deep":{"n":[1,2.5,null]}}}],"seal":{"a":1}}\n'
    b'{"role":"tool","content":"a\\nb\xe2\x80\xa8","tool_call_id":"tc1","took_ms":3}\n'
    b'{"role":"assistant","content":"two files"}\n'
)


def run(*words: str, code: int = 0, **options: object) -> tuple[bytes, str]:
    """Run one command to its end; return what it printed and what it told."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "sessions", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        **options,  # type: ignore[call-overload]  # those of subprocess
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr.decode()


async def talk(thread: Thread, *said: Message) -> None:
    thread.start_turn()
    for message in said:
        await thread.append(message)
    await thread.end_turn("end_turn", Usage(), 1)


@pytest.fixture
async def path() -> Path:
    """A session with a tool's call, a rewind and a compaction."""
    path = stored("inbox", "mac")
    thread = Thread.open(path, agent="inbox", instance="mac")
    call = ToolCall("c1", "read", {"path": "é.txt"})
    at = "2026-01-01T00:00:00.000Z"
    await talk(
        thread,
        Message("user", "look\nthere", at=at),
        Message("assistant", "Looking.", [call], reasoning="hm", at=at, model="m"),
        Message("tool", "gone\x1b[31m", tool_call_id="c1", is_error=True, at=at),
        Message("assistant", "It is go", partial=True, at=at, model="m"),
    )
    await talk(thread, Message("user", "never mind", at=at))
    await thread.rewind(3)
    await thread.record_compaction(CompactedRecord(through=2, keep=[(0, 0)], summary="We looked."))
    await talk(thread, Message("user", "and now?", at=at))
    thread.close()
    return path


SHOWN = """\
== turn 1

#0  2026-01-01T00:00:00.000Z  user
    look
    there

#1  2026-01-01T00:00:00.000Z  assistant  m  (compacted)
    (hm)
    Looking.
    -> read {"path": "é.txt"} c1

#2  2026-01-01T00:00:00.000Z  tool  c1  (compacted, failed)
    gone\x1b[31m

-- compacted: in the place of what was given up the model sees:
    [treadle summary of what was said before]
    We looked.

#3  2026-01-01T00:00:00.000Z  assistant  m  (partial)
    It is go

== turn 2

#4  2026-01-01T00:00:00.000Z  user  (rewound)
    never mind

-- rewound: the conversation went on behind #3

== turn 3

#5  2026-01-01T00:00:00.000Z  user
    and now?

"""


def test_a_thread_is_shown_with_its_turns_calls_and_marks(path: Path) -> None:
    lock = ThreadLock.acquire(path)
    shown, _ = run("show", *HERE)
    as_json, _ = run("show", *HERE, "--json")
    lock.release()
    assert shown.decode() == SHOWN
    messages = json.loads(as_json)
    assert [one["ordinal"] for one in messages] == [0, 1, 2, 3, 4, 5]
    assert messages[4] == {
        "ordinal": 4,
        "rewound": True,
        "role": "user",
        "content": "never mind",
        "at": "2026-01-01T00:00:00.000Z",
        "turn": 2,
    }
    _, told = run("show", "-a", "inbox", "-i", "none", code=1)
    assert "[unknown_session]" in told


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of its own is POSIX's")
def test_on_a_terminal_nothing_of_a_thread_is_obeyed(path: Path) -> None:
    for command in ("show", "export"):
        printed = on_terminal(command, *HERE)[1]
        assert b"gone" in printed
        assert b"\x1b[31m" not in printed


def test_an_export_is_plain_messages_and_what_went_in_comes_out(path: Path, tmp_path: Path) -> None:
    exported, _ = run("export", *HERE)
    lines = [json.loads(line) for line in exported.splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant", "user"]
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_bytes(BRUTE)
    there = ("-a", "inbox", "-i", "brute")
    assert run("import", str(log), *there) == (b"", "4 messages imported\n")
    assert run("export", *there)[0] == BRUTE
    assert run("export", *there, "-o", str(out)) == (b"", f"4 messages in {out}\n")
    assert out.read_bytes() == BRUTE
    if sys.platform != "win32":
        assert out.stat().st_mode & 0o777 == 0o600
    _, told = run("export", *there, "-o", str(out), code=1)
    assert "is there already" in told
    _, told = run("export", "-i", "none", "-o", str(tmp_path / "none"), code=1)
    assert "[unknown_session]" in told
    assert not (tmp_path / "none").exists()
    # What was exported goes in again, whoever wrote it.
    again = tmp_path / "again.jsonl"
    again.write_bytes(exported)
    run("import", str(again), "-i", "again")
    assert run("export", "-i", "again")[0] == exported


def test_lines_in_any_form_come_out_equal_as_json(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    odd = b'{ "content" : "hi \\ud83d\\ude00" , "role": "user", "x": 1e2 }\r\n\r\n'
    log.write_bytes(b"\xef\xbb\xbf" + odd + b'{"role":"assistant","content":"yes"}')
    assert run("import", str(log), "-i", "odd")[1] == "2 messages imported\n"
    lines = run("export", "-i", "odd")[0].splitlines()
    assert [json.loads(line) for line in lines] == [
        {"role": "user", "content": "hi \U0001f600", "x": 1e2},
        {"role": "assistant", "content": "yes"},
    ]


def test_what_is_no_message_is_refused_with_its_line_or_skipped(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(BRUTE + b'half\n{"role":"system","content":"be kind"}\n[1]\n')
    _, told = run("import", str(log), "-i", "bad", code=1)
    assert "line 5: " in told
    assert "line 7: " in told
    assert not stored("assistant", "bad").exists()
    _, told = run("import", str(log), "-i", "bad", "--skip-bad-lines")
    first, second, last = told.splitlines()
    assert first.startswith(f"{log}:5: left out: ")
    assert second.startswith(f"{log}:7: left out: ")
    assert last == "4 messages imported, 1 with instructions left out, 2 bad lines left out"
    _, told = run("import", str(log), "-i", "bad", "--skip-bad-lines", code=1)
    assert "[thread_exists]" in told
    _, told = run("import", str(tmp_path / "none"), "-i", "none", code=1)
    assert "No such file" in told


def test_a_session_is_forked_at_a_message_also_while_it_is_open(path: Path) -> None:
    lock = ThreadLock.acquire(path)
    told = [run("fork", "two", *HERE)[1], run("fork", "three", *HERE, "--at", "0")[1]]
    lock.release()
    assert told == ["two begins with 5 messages\n", "three begins with 1 message\n"]
    header = load(stored("inbox", "two")).header
    assert header is not None
    assert (header.instance, header.forked and header.forked.instance) == ("two", "mac")
    assert "[thread_exists]" in run("fork", "two", *HERE, code=1)[1]
    assert "[no_such_ordinal]" in run("fork", "four", *HERE, "--at", "4", code=1)[1]
    assert "[unknown_session]" in run("fork", "four", "-i", "none", code=1)[1]
    assert run("fork", "five", *HERE, "--at", "-2", code=2)


def test_a_deletion_is_asked_for_and_a_session_that_is_held_stays(path: Path) -> None:
    assert "--yes" in run("delete", *HERE, code=2)[1]
    lock = ThreadLock.acquire(path)
    assert "[thread_locked]" in run("delete", *HERE, "--yes", code=1)[1]
    lock.release()
    assert path.exists()
    assert run("delete", *HERE, "--yes") == (b"", "deleted\n")
    for words in (HERE, (*HERE, "-y")):
        assert run("delete", *words) == (b"", "nothing was stored there\n")
    assert [entry for entry in path.parents[2].rglob("*") if entry.is_file()] == []


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of its own is POSIX's")
def test_on_a_terminal_a_person_says_yes_or_no(path: Path) -> None:
    code, printed = on_terminal("delete", *HERE, said=b"n\n")
    assert (code, b"Delete all that was said in inbox" in printed, path.exists()) == (0, True, True)
    code, _ = on_terminal("delete", *HERE, said=b"y\n")
    assert (code, path.exists()) == (0, False)


def test_verify_says_what_is_wrong_and_repair_mends_it(path: Path) -> None:
    assert run("verify") == (b"", "nothing is wrong\n")
    assert run("repair") == (b"", "there is nothing to mend\n")
    good = path.read_bytes()
    path.write_bytes(good + b'not json\n{"role":"user"')
    damaged = path.read_bytes()
    line = good.count(b"\n") + 1
    printed, told = run("verify", code=1)
    first, second = printed.decode().splitlines()
    assert first.startswith(f"{path}:{line}: bad_line: ")
    assert second == f"{path}: torn_tail: it ends in half a line of 14 bytes"
    assert told == "2 problems found, 2 of them mended by: treadle sessions repair\n"
    found = json.loads(run("verify", "--json", code=1)[0])
    assert [(one["kind"], one["mendable"], one.get("line")) for one in found] == [
        ("bad_line", True, line),
        ("torn_tail", True, None),
    ]
    assert found[0]["offset"] == len(good)
    assert path.read_bytes() == damaged
    printed, told = run("repair")
    assert printed.decode().startswith(f"{path}: 1 bad line set aside, half a line of 14 bytes")
    assert told == "1 thread mended\n"
    assert run("verify") == (b"", "nothing is wrong\n")
    aside = path.with_suffix(".damaged").read_bytes()
    assert b"not json" in aside
    assert b'{"role":"user"' in aside


def test_what_cannot_be_mended_now_is_said(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"not json\n")
    lock = ThreadLock.acquire(path)
    printed, told = run("verify", code=1)
    lock.release()
    assert b"bad_line" in printed
    assert told == "1 problem found\n"
    other = path.with_name("stranger++00.jsonl")
    other.write_bytes(b"x\n")
    printed, _ = run("verify", code=1)
    assert f"{other}: unknown_pair: ".encode() in printed


def on_terminal(*words: str, said: bytes = b"") -> tuple[int, bytes]:
    """Run one command on a terminal of its own; return its code and what that showed."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", "sessions", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        close_fds=True,
    )
    os.close(theirs)
    os.write(ours, said)
    printed = b""
    try:
        while chunk := os.read(ours, 4096):
            printed += chunk
    except OSError:
        pass  # how Linux says that nobody holds the other end any more
    os.close(ours)
    return process.wait(PATIENCE_SECONDS), printed
