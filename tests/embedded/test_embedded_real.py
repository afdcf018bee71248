"""The real model, in its real process: what a person sees who has configured nothing.

Skipped, with the reason, where the runtime or the model file cannot be had.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from treadle.agents.builtin import ASSISTANT_INSTRUCTIONS
from treadle.errors import ContextOverflow, NoModel
from treadle.folders import CACHE_VARIABLE
from treadle.models.embedded.files import FILE_VARIABLE
from treadle.models.embedded.model import EmbeddedModel
from treadle.models.embedded.server import EmbeddedServer
from treadle.sandbox.local import LocalSandbox
from treadle.tools.files.read import read
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.loop import ToolResultLoop
from treadle.turn.session_log import SessionLog
from treadle.turn.system_prompt import SystemPrompt
from treadle.turn.tools import Tools

# A turn takes a second here; a busy machine may need ten times that.
BOUND_SECONDS = 120.0


@pytest.fixture
async def model(cache: Path) -> AsyncIterator[EmbeddedModel]:
    made = EmbeddedModel(cache)
    yield made
    await made.close()


def remembering(model: EmbeddedModel, path: Path, *, folder: Path | None = None) -> Agent:
    """Build the agent anew, as a second run of a script would; with a folder it may read there."""
    agent = (
        Agent()
        .use(SessionLog, path=path)
        .use(SystemPrompt, text=ASSISTANT_INSTRUCTIONS)
        .use(ToolResultLoop)
    )
    if folder is not None:
        agent.use(Tools, tools=[read], sandbox=LocalSandbox(folder))
    return agent.run(model.completion())


async def say(agent: Agent, text: str) -> Env:
    async with asyncio.timeout(BOUND_SECONDS):
        return await agent.start(text)


@pytest.mark.parametrize("with_tools", [False, True])
async def test_a_name_said_in_one_run_is_known_in_the_next_ten_of_ten(
    model: EmbeddedModel, tmp_path: Path, with_tools: bool
) -> None:
    folder = tmp_path if with_tools else None
    told = [
        ("My name is Mac.", "Mac"),
        ("Hi, I'm Mac.", "Mac"),
        ("My name is Priya.", "Priya"),
        ("Hi, I'm Priya", "Priya"),
        ("My name is Zoë.", "Zoë"),
        ("My name is 美咲.", "美咲"),
        ("I am called 美咲.", "美咲"),
        ("Hello! My name is Olumide.", "Olumide"),
        ("My name is Anna and I like tea.", "Anna"),
        ("My name is Xiomara", "Xiomara"),
    ]
    forgotten = []
    for number, (introduction, name) in enumerate(told):
        path = tmp_path / f"{number}.jsonl"
        first = await say(remembering(model, path, folder=folder), introduction)
        second = await say(remembering(model, path, folder=folder), "What is my name?")

        assert [m.tool_calls for env in (first, second) for m in env.messages if m.tool_calls] == []
        if name not in second.messages[-1].text:
            forgotten.append((introduction, second.messages[-1].text))
    assert forgotten == []


async def test_a_name_outlives_a_question_about_something_else(
    model: EmbeddedModel, tmp_path: Path
) -> None:
    path = tmp_path / "thread.jsonl"
    for text in ("My name is Mac.", "What is the capital of France?"):
        await say(remembering(model, path, folder=tmp_path), text)

    env = await say(remembering(model, path, folder=tmp_path), "What is my name?")

    assert "Mac" in env.messages[-1].text


async def test_a_named_file_is_read_and_its_words_reach_the_answer(
    model: EmbeddedModel, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Meeting moved to Thursday at 10.\n")

    agent = remembering(model, tmp_path / "thread.jsonl", folder=tmp_path)
    env = await say(agent, "Read the file notes.txt and tell me what it says.")

    call = env.messages[2].tool_calls[0]
    assert (call.name, call.arguments) == ("read", {"path": "notes.txt"})
    assert "Thursday" in env.messages[-1].text


async def test_a_cancelled_answer_keeps_what_had_come_and_the_next_turn_works(
    model: EmbeddedModel, tmp_path: Path
) -> None:
    path = tmp_path / "thread.jsonl"
    growing = asyncio.Event()
    agent = remembering(model, path).on("delta", lambda env, delta: growing.set())
    turn = asyncio.create_task(agent.start("Count from 1 to 200, separated by commas."))
    async with asyncio.timeout(BOUND_SECONDS):
        await growing.wait()

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    env = await say(remembering(model, path), "My name is Mac.")
    assert [message.partial for message in env.messages if message.role == "assistant"] == [
        True,
        False,
    ]


async def test_a_conversation_larger_than_the_window_is_an_overflow(
    model: EmbeddedModel, tmp_path: Path
) -> None:
    with pytest.raises(ContextOverflow) as caught:
        await say(remembering(model, tmp_path / "thread.jsonl"), "word " * 9000)

    assert caught.value.data["window"] == 8192


async def test_a_file_that_is_no_model_is_told_with_what_to_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "junk.gguf").write_bytes(b"no model" * 1000)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "junk.gguf"))
    model = EmbeddedModel(cache)

    with pytest.raises(NoModel, match=r"junk\.gguf") as caught:
        await say(remembering(model, tmp_path / "thread.jsonl"), "Hi")

    assert FILE_VARIABLE in caught.value.data["how"]
    await model.close()


async def test_without_its_key_nobody_is_answered(cache: Path) -> None:
    server = EmbeddedServer(cache)
    async with server.use() as running:
        with line_to(running.base_url) as line:
            line.sendall(b"GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n")
            assert line.recv(4096).startswith(b"HTTP/1.1 401")
    await server.close()


async def test_closing_ends_the_process(cache: Path) -> None:
    server = EmbeddedServer(cache)
    async with server.use() as running:
        line = line_to(running.base_url)
    with line:
        await server.close()
        assert running.child.exit_code == 0
        assert ends(line)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_the_process_ends_with_a_daemon_that_is_killed(cache: Path) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(cache)], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    try:
        line = line_to(daemon.stdout.readline().strip())
    finally:
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait()
        daemon.stdout.close()
    with line:
        assert ends(line)


DAEMON = """
import asyncio, sys
from pathlib import Path
from treadle.models.embedded.server import EmbeddedServer

async def main():
    async with EmbeddedServer(Path(sys.argv[1])).use() as running:
        print(running.base_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def line_to(base_url: str) -> socket.socket:
    """Open a connection to the process, whose end is the process's end."""
    parts = urlsplit(base_url)
    assert parts.hostname and parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout=BOUND_SECONDS)


def ends(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


def test_doctor_asks_it_and_is_answered(cache: Path) -> None:
    own = Path(os.environ[CACHE_VARIABLE])
    own.mkdir()
    (own / "models").symlink_to(cache / "models")
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    found = json.loads(done.stdout)
    (model,) = found["models"]
    assert model.pop("seconds") > 0
    assert model == {"model": "embedded", "agents": {"assistant": "default"}, "answers": True}
    assert (found["embedded"]["whole"], done.returncode) == (True, 0)
