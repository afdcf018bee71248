"""What becomes of a command whose standard streams are closed, full, unread or not UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.process import posix_only

# Far more than any command takes on a busy machine.
PATIENCE_SECONDS = 60

SAID = "Grüße 🎉\nand more"

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scripted model that every command of the test is answered by."""
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps({"text": SAID}) + "\n")
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{path}")
    return path


def shell(
    redirected: str,
    *words: str,
    env: Mapping[str, str] | None = None,
    said: bytes = b"",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end, redirected as a shell does it."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", sys.executable, "-m", "treadle", *words],
        input=said,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )


def stored() -> list[tuple[str, str]]:
    """Return who said what in the default session, from its thread."""
    listed = shell("", "call", "session/read", '{"agent":"assistant","instance":"default"}')
    messages: list[dict[str, Any]] = json.loads(listed.stdout)["messages"]
    return [(message["role"], message["content"]) for message in messages]


@posix_only
@pytest.mark.parametrize("words", [("prompt", "hi"), ("prompt", "hi", "--json")])
def test_a_reader_that_leaves_ends_the_turn_and_the_command_quietly(
    script: Path, words: tuple[str, ...]
) -> None:
    script.write_text('{"text": "a b c d"}\n{"text": "never", "delay_seconds": 600}\n')
    with subprocess.Popen(
        [sys.executable, "-m", "treadle", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait(PATIENCE_SECONDS)
    assert (code, errors) == (1, b"")
    assert stored()[0] == ("user", "hi")


@posix_only
@needs_full
@pytest.mark.parametrize(
    "words",
    [
        ("prompt", "hi"),
        ("prompt", "hi", "--json"),
        ("call", "session/list"),
        ("agents", "list"),
        ("--help",),
        ("--version",),
    ],
)
def test_a_full_output_is_one_line_of_error(words: tuple[str, ...]) -> None:
    done = shell(">/dev/full", *words)
    assert done.returncode == 1
    assert done.stderr.startswith(b"treadle: ") and done.stderr.count(b"\n") == 1
    assert shell(">/dev/full 2>/dev/full", *words).returncode == 1


@posix_only
def test_closed_streams_are_the_null_device() -> None:
    done = shell("<&- >&- 2>&-", "prompt", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert stored() == [("user", "hi"), ("assistant", SAID)]
    refused = shell("<&-", "prompt")
    assert (refused.returncode, refused.stderr) == (
        1,
        b"treadle: the prompt is empty; say something\n",
    )


@posix_only
@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
    ],
)
def test_an_output_without_the_characters_loses_no_text(env: dict[str, str]) -> None:
    done = shell("", "prompt", "hi", env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b" \\U0001f389\nand more\n")
    as_json = shell("", "prompt", "hi", "--json", env=env)
    last = json.loads(as_json.stdout.decode("ascii").splitlines()[-1])
    assert (last["result"]["text"], as_json.stderr) == (SAID, b"")


@posix_only
def test_input_that_is_no_text_is_kept_as_far_as_it_is() -> None:
    done = shell("", "prompt", said=b"one \xff two", env={"PYTHONIOENCODING": "utf-8:strict"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert stored()[0] == ("user", "one \ufffd two")


@posix_only
def test_a_current_folder_that_is_gone_is_no_workspace(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    # Not `-m`: Python itself looks for the module in the current folder.
    program = "from treadle.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "prompt", "hi"]
    done = subprocess.run(
        ["sh", "-c", 'cd "$0"; rmdir "$0"; "$@"', gone, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == SAID + "\n"


@posix_only
def test_a_terminal_obeys_nothing_that_a_model_says_and_a_pipe_gets_all_of_it(
    tmp_path: Path,
) -> None:
    import pty

    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"text": "a\x1b]0;title\x07b\x9bc"}) + "\n")
    environ = {**os.environ, "TREADLE_MODEL": f"scripted:{script}"}
    command = [sys.executable, "-m", "treadle", "prompt", "hello"]
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, stdout=theirs, stdin=subprocess.DEVNULL, env=environ, timeout=60)
        shown = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    piped = subprocess.run(command, capture_output=True, env=environ, text=True, timeout=60)
    assert shown == "a␛]0;title␇b\ufffdc\r\n"
    assert piped.stdout == "a\x1b]0;title\x07b\x9bc\n"
