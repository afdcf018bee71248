"""Commands whose agent asks before it acts: on a terminal, in a chat, and without a person."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.approving import AGENT, approvals, careful_agent, decisions, write
from support.chat import resting
from support.model_server import Answer, ModelServer, in_order
from support.person import on
from support.tmux import CHAT, Tmux, tmux
from support.waiting import PATIENCE_SECONDS

PROMPT = (sys.executable, "-m", "treadle", "prompt", "--agent", AGENT, "--instance", "test")
HOW = "n: do not allow it"


def treadle(*words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command whose streams are no terminal."""
    return subprocess.run(
        [*PROMPT[:3], *words],
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


async def test_a_prompt_on_a_terminal_asks_there_and_shows_what_would_be_done(
    tmp_path: Path,
) -> None:
    work = careful_agent(tmp_path, [write("a\x1b[2J.txt", "one\n")], [write("b.txt")])
    async with tmux(*PROMPT, "Go", folder=tmp_path, env={"COLUMNS": "80"}) as terminal:
        screen = await terminal.sees("careful wants: write a", "+one", HOW)
        assert "␛[2J.txt" in screen
        terminal.type("what?", "Enter")
        await terminal.until(lambda shown: shown.count(HOW) == 2)
        terminal.type("y", "Enter")
        await terminal.sees("write b.txt")
        await terminal.until(lambda shown: shown.count(HOW) == 3)
        terminal.type("n", "Enter")
        assert await terminal.exit_code() == 0
    assert [path.name for path in work.iterdir()] == ["a\x1b[2J.txt"]
    assert decisions() == [
        ("write", "asked", ""),
        ("write", "allow_once", "client"),
        ("write", "asked", ""),
        ("write", "deny", "client"),
    ]


async def test_what_was_typed_before_a_question_answers_nothing(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, model="test-model")
    asks = Answer(calls=[("write", {"path": "a.txt", "content": "x"})], pause_after=0)
    async with (
        ModelServer(in_order(asks, Answer("Done."))) as server,
        tmux(*PROMPT, "Go", folder=tmp_path, env=on(server)) as terminal,
    ):
        terminal.type("y", "Enter")
        # As the terminal shows it, which has it then.
        await terminal.sees("y\n")
        asks.go_on.set()
        await terminal.sees(HOW)
        terminal.type("n", "Enter")
        assert await terminal.exit_code() == 0
    assert not list(work.iterdir())
    assert decisions()[-1] == ("write", "deny", "client")


async def test_two_calls_of_a_batch_are_asked_one_after_the_other(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt"), write("b.txt")])
    async with tmux(*PROMPT, "Go", folder=tmp_path) as terminal:
        await terminal.until(lambda shown: shown.count(HOW) == 1)
        terminal.type("a", "Enter")
        await terminal.until(lambda shown: shown.count(HOW) == 2)
        terminal.type("n", "Enter")
        assert await terminal.exit_code() == 0
    assert len(list(work.iterdir())) == 1


async def test_ctrl_c_at_a_question_ends_the_turn_and_nothing_is_done(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    async with tmux(*PROMPT, "Go", folder=tmp_path) as terminal:
        await terminal.sees(HOW)
        terminal.keys("C-c")
        assert await terminal.exit_code() == 130
    assert not list(work.iterdir())
    assert decisions()[-1] == ("write", "deny", "withdrawn")


def test_a_prompt_without_a_terminal_denies_and_says_how_to_allow(tmp_path: Path) -> None:
    question = {"name": "ask", "arguments": {"questions": [{"id": "1", "text": "Sure?"}]}}
    work = careful_agent(tmp_path, [write("a.txt"), question])
    done = treadle(*PROMPT[3:], said="Go")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "write was not allowed, for nobody can be asked here" in done.stderr
    assert "`permissions: auto`" in done.stderr
    assert not list(work.iterdir())


def test_call_denies(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    params = json.dumps({"agent": AGENT, "instance": "test", "prompt": "Go"})
    done = treadle("call", "session/prompt", params)
    assert done.returncode == 0
    assert not list(work.iterdir())
    assert decisions() == [("write", "deny", "nobody")]


def test_a_thread_is_shown_with_what_was_asked_and_answered(tmp_path: Path) -> None:
    careful_agent(tmp_path, [write("a.txt", call_id="c1")])
    treadle(*PROMPT[3:], said="Go")
    done = treadle("sessions", "show", "--agent", AGENT, "--instance", "test")
    shown = [line for line in done.stdout.splitlines() if "permission" in line]
    asked, denied = approvals()
    assert shown == [
        f"-- permission: {asked.at}  write  c1  asked",
        f"-- permission: {denied.at}  write  c1  deny  by client",
    ]


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
async def test_a_chat_asks_in_the_conversation(term: str, tmp_path: Path) -> None:
    question = {"id": "1", "text": "Which colour?", "options": ["red", "blue"]}
    work = careful_agent(
        tmp_path,
        [write("a.txt")],
        [{"name": "ask", "arguments": {"questions": [question]}}],
        [write("b.txt")],
    )
    command = (*CHAT, AGENT, "test")
    async with tmux(*command, folder=tmp_path, env={"TERM": term}, height=60) as terminal:
        await _ready(terminal, term)
        terminal.type("Go", "Enter")
        await terminal.sees("careful wants: write a.txt", HOW)
        terminal.type("y", "Enter")
        await terminal.sees("Which colour?", "2: blue")
        assert (work / "a.txt").exists()
        terminal.type("2", "Enter")
        await terminal.sees("wants: write b.txt")
        terminal.type("n", "Enter")
        await terminal.sees("Done.")
        await _ready(terminal, term)
        terminal.type("/quit", "Enter")
        assert await terminal.exit_code() == 0
    assert [path.name for path in work.iterdir()] == ["a.txt"]


async def _ready(terminal: Tmux, term: str) -> None:
    if term == "dumb":
        await terminal.until(lambda screen: screen.rstrip().endswith("\n>"))
    else:
        await terminal.sees(resting(model="script.jsonl"))


def test_a_chat_without_a_terminal_denies_and_goes_on(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    done = treadle("chat", AGENT, "test", said="Go\n")
    assert done.stdout.strip() == "Done."
    assert "write was not allowed, for nobody can be asked here" in done.stderr
    assert not list(work.iterdir())
