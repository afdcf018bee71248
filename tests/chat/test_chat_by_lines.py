"""`treadle chat` without a cursor: piped input, and a dumb terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.model_server import Answer, ModelServer, in_order, last_user_text
from support.person import on
from support.process import patience_with
from support.tmux import CHAT, tmux
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.cli.chat import plain
from treadle.cli.chat.items import Status

Script = Callable[..., None]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Write the replies of a scripted model that answers every chat of the test."""
    path = tmp_path / "replies.jsonl"
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{path}")

    def write(*replies: dict[str, Any]) -> None:
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))

    write({"echo": True})
    return write


def chat(said: str | bytes, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Chat to the end of what is said."""
    done = subprocess.run(
        [*CHAT, *words],
        input=said.encode() if isinstance(said, str) else said,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "PYTHONUTF8": "1", **env},
    )
    assert b"\x1b" not in done.stdout + done.stderr
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def test_each_line_is_a_prompt_and_standard_output_has_the_answers_alone(script: Script) -> None:
    done = chat("hello there\n\n  \nand 麦克\r\nwithout an end")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "hello there\nand 麦克\nwithout an end\n"


def test_a_block_is_one_prompt_in_which_a_slash_is_nothing_special(script: Script) -> None:
    done = chat('"""\n/help\n\n  two\n"""\n//help\n')
    assert (done.returncode, done.stdout) == (0, "/help\n\n  two\n/help\n")


def test_a_block_that_is_never_closed_is_refused_and_kept_as_a_draft(
    script: Script, tmp_path: Path
) -> None:
    done = chat('one\n"""\nhalf of\nit\n')
    assert (done.returncode, done.stdout) == (2, "one\n")
    assert "never closed" in done.stderr
    (draft,) = (tmp_path / "data" / "chat" / "drafts").rglob("*.txt")
    assert draft.read_text() == "half of\nit"


def test_tools_reasoning_and_notes_stand_on_standard_error(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    call = {"name": "read", "arguments": {"path": "notes.txt"}}
    script({"text": "I look.", "reasoning": "Hm.", "calls": [call]}, {"text": "Done."})
    done = chat("what is there?\n/reasoning\n")
    assert (done.returncode, done.stdout) == (0, "I look.\nDone.\n")
    told = re.sub(r"\d+(\.\d)? (ms|s)\b", "TIME", done.stderr)
    assert told == (
        "[thought for TIME, 3 characters]\n"
        '[read path: "notes.txt"]\n'
        "  read ok, TIME\n"
        "  1\tline 0\n  2\tline 1\n  3\tline 2\n  … 6 more lines\n"
        "[thought for TIME, 3 characters]\nHm.\n"
    )


def test_commands_work_and_what_they_were_asked_for_is_on_standard_output(script: Script) -> None:
    done = chat("hello\n/sessions\n/read 1\n/open other\nhi\n/read\n/close\n/quit\nnever\n")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "hello"
    assert lines[1].startswith("* assistant default  2 messages")
    assert lines[2:] == ["hello", "hi", "> hi", "hi"]
    assert done.stderr == "treadle: closed; the next word opens it again\n"


def test_a_command_that_is_not_understood_is_usage_and_the_rest_goes_on(script: Script) -> None:
    done = chat("/sesions\nhello\n/read many\n")
    assert (done.returncode, done.stdout) == (2, "hello\n")
    assert "Did you mean /sessions?" in done.stderr
    assert "/read takes" in done.stderr


@pytest.mark.parametrize(
    ("reply", "code", "told"),
    [
        ({"text": "and", "finish": "length"}, 3, "max_tokens"),
        ({"text": "no", "finish": "content_filter"}, 3, "refused"),
        ({"error": {"reason": "model_auth"}}, 1, "[model_auth]"),
    ],
)
def test_the_exit_code_is_that_of_the_worst_outcome(
    script: Script, reply: dict[str, Any], code: int, told: str
) -> None:
    script({"text": "good"}, reply, {"text": "good again"})
    done = chat("one\ntwo\nthree\n")
    assert done.returncode == code
    assert done.stderr.count(told) == 1
    assert done.stdout.endswith("good again\n")


def test_an_agent_that_is_unknown_ends_the_chat_before_it_begins(script: Script) -> None:
    done = chat("hello\n", "asistant")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("[unknown_agent]\n")


def test_bytes_that_are_no_text_and_escapes_do_no_harm(script: Script) -> None:
    done = chat(b"\xff \x1b[31mred \x9b \x07\n", NO_COLOR="1")
    assert done.returncode == 0
    assert done.stdout.startswith("\ufffd ␛[31mred ")


def test_a_reader_that_leaves_ends_the_chat(script: Script) -> None:
    script({"text": "a b c d"}, {"text": "never", "delay_seconds": 600})
    with subprocess.Popen(
        CHAT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        with patience_with(process):
            process.stdout.close()
            process.stdin.write(b"hi\nthere\n")
            process.stdin.close()
            assert process.wait() == 1


async def test_ctrl_c_cancels_the_turn_and_the_next_line_is_still_taken() -> None:
    first = Answer("one two three", pause_after=2)
    async with ModelServer(in_order(first, Answer("Go on."))) as server:
        process = await asyncio.create_subprocess_exec(
            *CHAT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **on(server)},
            # Whoever runs the tests in the background of a shell has Ctrl-C ignored, and the chat
            # keeps to what it finds.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        telling = asyncio.create_task(process.communicate(b"count\nand now?\n"))
        await server.until(lambda: server.open_requests == 1)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, errors = await telling
    assert process.returncode == 130
    assert out.decode().endswith("Go on.\n")
    assert "cancelled; what had been said is kept" in errors.decode()
    assert last_user_text(server.requests[1]) == "and now?"


async def test_a_dumb_terminal_gets_lines_and_a_mark_and_no_escapes(tmp_path: Path) -> None:
    async with (
        ModelServer(lambda request: Answer("# Seen\n\n**fine**")) as server,
        tmux(*CHAT, folder=tmp_path, env={**on(server), "TERM": "dumb"}) as terminal,
    ):
        await terminal.until(lambda screen: screen.rstrip().endswith("\n>"))
        assert terminal.screen().startswith("treadle: a new thread")
        terminal.type("hello", "Enter")
        await terminal.sees("> hello\n# Seen\n\n**fine**\n>")
        terminal.keys("C-c")
        await terminal.sees("Ctrl-C again leaves")
        terminal.keys("C-c")
        assert await terminal.exit_code() == 130


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_an_output_that_is_no_terminal_gets_no_escapes_although_a_person_types(
    script: Script,
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        CHAT, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        with patience_with(process):
            os.write(ours, b"hello\n\x04")
            out, errors = process.communicate()
    os.close(ours)
    assert (process.returncode, out) == (0, b"hello\n")
    assert b"\x1b" not in errors


def test_saying_one_thing_loads_nothing_of_the_chat(script: Script) -> None:
    program = (
        "import sys; from treadle.cli.main import main; code = main(['prompt', 'hi']);"
        "heavy = {'prompt_toolkit', 'rich.markdown'} & {*sys.modules};"
        "print(*heavy, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "\n")


async def test_a_long_silence_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plain, "SILENT_SECONDS", 0.01)
    face = plain.Plain(interactive=False)
    told: list[str] = []

    def has_told(text: str) -> bool:
        told.append(capsys.readouterr().err)
        return text in "".join(told)

    telling = asyncio.create_task(face.tell_of_silence())
    try:
        face.status(Status("a", "b", doing="running read\x1b[2J", since=time.monotonic()))
        await until_seen(lambda: has_told("[still running read␛[2J, "))
    finally:
        telling.cancel()
