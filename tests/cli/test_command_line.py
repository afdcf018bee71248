"""What a person or a shell script sees of `treadle`, run as they run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.model_server import ModelServer, memory
from treadle.version import __version__

# Far more than any command takes on a busy machine.
PATIENCE_SECONDS = 60


def treadle(
    *words: str, said: str | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "treadle", *words],
        input=said,
        stdin=None if said is not None else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=cwd,
    )


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scripted model that every command of the test is answered by."""
    path = tmp_path / "replies.jsonl"
    path.write_text('{"echo": true}\n')
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{path}")
    return path


def test_version_and_help_say_what_there_is() -> None:
    assert treadle("--version").stdout == f"treadle {__version__}\n"
    helped = treadle("--help")
    assert helped.returncode == 0
    for command in ("serve", "chat", "prompt", "call", "doctor", "sessions", "agents", "model"):
        assert command in helped.stdout
    assert treadle("-h").stdout == helped.stdout
    assert treadle("sessions", "list", "-h").returncode == 0


def test_serve_explains_itself_although_its_output_is_for_frames_only() -> None:
    helped = treadle("serve", "--help")
    assert (helped.returncode, "--data-dir" in helped.stdout) == (0, True)


def test_a_word_that_is_no_command_is_a_usage_error_that_names_the_nearest() -> None:
    refused = treadle("promt", "hello")
    assert refused.returncode == 2
    assert "prompt" in refused.stderr


async def test_a_prompt_in_another_process_knows_what_the_first_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import asyncio

    async with ModelServer(memory) as server:
        monkeypatch.setenv("TREADLE_MODEL", "mock")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        address = ("-a", "assistant", "-i", "user-42")
        first = await asyncio.to_thread(treadle, "prompt", *address, "My name is Mac.")
        second = await asyncio.to_thread(treadle, "prompt", *address, "What is my name?")
    assert (first.returncode, first.stderr) == (0, "")
    assert (second.returncode, second.stdout, second.stderr) == (0, "Your name is Mac.\n", "")


def test_a_prompt_without_text_is_read_from_standard_input(script: Path) -> None:
    assert treadle("prompt", said="said by a pipe\n").stdout == "said by a pipe\n"
    assert treadle("prompt", "-", said="Grüße, 美咲").stdout == "Grüße, 美咲\n"


def test_an_empty_prompt_fails_and_says_so(script: Path) -> None:
    refused = treadle("prompt", "  ")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "treadle: the prompt is empty; say something\n"


def test_prompt_as_json_prints_each_event_and_then_the_result(script: Path) -> None:
    done = treadle("prompt", "--json", "two words")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [next(iter(line)) for line in lines] == [
        "session/state",
        "session/delta",
        "session/delta",
        "session/done",
        "session/state",
        "result",
    ]
    assert lines[-1]["result"]["text"] == "two words"


def test_a_tool_call_is_told_beside_the_answer(script: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Meeting moved to Thursday.\n")
    call = {"calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]}
    script.write_text(json.dumps(call) + '\n{"text": "It moved to Thursday."}\n')
    done = treadle("prompt", "What do my notes say?", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "It moved to Thursday.\n")
    assert done.stderr == '[read {"path": "notes.txt"}]\n'


def test_an_unknown_agent_fails_with_its_reason(script: Path) -> None:
    refused = treadle("prompt", "-a", "asistant", "hello")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "assistant" in refused.stderr
    assert refused.stderr.endswith("[unknown_agent]\n")


def test_a_model_error_fails_with_its_reason(script: Path) -> None:
    script.write_text('{"error": {"reason": "model_auth"}}\n')
    refused = treadle("prompt", "hello")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[-1].endswith("[model_auth]")
    as_json = treadle("prompt", "--json", "hello")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout.splitlines()[-1])["error"]["data"]["reason"] == "model_auth"


def test_an_answer_that_hit_a_limit_has_an_exit_code_of_its_own(script: Path) -> None:
    script.write_text('{"text": "and then", "finish": "length"}\n')
    done = treadle("prompt", "tell me everything")
    assert (done.returncode, done.stdout) == (3, "and then\n")
    assert "max_tokens" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot send Ctrl-C to one process")
def test_ctrl_c_keeps_what_was_said(script: Path) -> None:
    script.write_text('{"text": "never said", "delay_seconds": 600}\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", "prompt", "--json", "remember this"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    reaper = threading.Timer(PATIENCE_SECONDS, process.kill)
    reaper.start()
    assert process.stdout is not None
    assert "running" in process.stdout.readline()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not stored_messages():
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE_SECONDS)
    reaper.cancel()
    assert (process.returncode, errors) == (130, "")
    assert json.loads(rest.splitlines()[-1])["result"]["stopReason"] == "cancelled"
    assert stored_messages() == ["remember this"]


def stored_messages() -> list[str]:
    """Return what is stored of the default session."""
    read = treadle("call", "session/read", '{"agent": "assistant", "instance": "default"}')
    if read.returncode:
        return []
    return [message["content"] for message in json.loads(read.stdout)["messages"]]


def test_call_sends_any_method_and_prints_its_result(script: Path) -> None:
    params = json.dumps({"agent": "assistant", "instance": "i", "prompt": "hello"})
    done = treadle("call", "session/prompt", params)
    assert (done.returncode, json.loads(done.stdout)["text"]) == (0, "hello")
    piped = treadle("call", "--events", "session/prompt", "-", said=params)
    first, *_, last = map(json.loads, piped.stdout.splitlines())
    assert (first["method"], last["text"]) == ("session/state", "hello")


def test_call_prints_an_error_as_json_on_standard_error() -> None:
    refused = treadle("call", "session/read", '{"agent": "assistant", "instance": "nobody"}')
    assert (refused.returncode, refused.stdout) == (1, "")
    assert json.loads(refused.stderr)["error"]["data"] == {"reason": "unknown_session"}


def test_call_with_params_that_are_no_json_is_a_usage_error() -> None:
    refused = treadle("call", "session/list", "{")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "JSON" in refused.stderr


def test_sessions_are_listed_and_their_files_found(script: Path) -> None:
    assert (treadle("sessions", "list").stdout, treadle("sessions", "path").returncode) == ("", 1)
    treadle("prompt", "-i", "one", "hello")
    treadle("prompt", "-i", "two", "hello")
    listed = treadle("sessions", "list", "--json")
    assert [each["instance"] for each in json.loads(listed.stdout)] == ["two", "one"]
    assert "assistant  one  2 messages" in treadle("sessions", "list").stdout
    path = Path(treadle("sessions", "path", "-i", "one").stdout.strip())
    assert '"content":"hello"' in path.read_text()
    path.unlink()
    assert treadle("prompt", "-i", "one", "anew").returncode == 0
    assert len(path.read_text().splitlines()) == len(("thread", "start", "user", "answer", "end"))


def test_a_name_that_no_session_can_have_is_refused() -> None:
    refused = treadle("sessions", "path", "-i", "x" * 201)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("treadle: ")


def test_agents_are_listed_with_the_files_that_are_broken(script: Path) -> None:
    agents = Path(os.environ["TREADLE_CONFIG_DIR"]) / "agents"
    agents.mkdir(parents=True)
    (agents / "inbox.md").write_text("---\ndescription: Sorts my mail\n---\nYou sort mail.\n")
    (agents / "broken.md").write_text("---\npermisions: auto\n---\n")
    listed = treadle("agents", "list")
    assert listed.returncode == 0
    assert "inbox  read_only" in listed.stdout
    assert "Sorts my mail" in listed.stdout
    assert "assistant  read_only" in listed.stdout
    assert "broken.md" in listed.stderr
    assert "permissions" in listed.stderr
    assert {
        agent["name"] for agent in json.loads(treadle("agents", "list", "--json").stdout)["agents"]
    } == {
        "assistant",
        "inbox",
    }
