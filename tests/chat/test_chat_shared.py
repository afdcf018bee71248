"""Chats on the shared daemon, in real terminals: what others say and answer, and what is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.approving import AGENT, answer, careful_agent, client_that, here, write
from support.chat import READY, messages, say
from support.model_server import Answer, ModelServer
from support.shared import connected, end_daemon, kill_daemon
from support.tmux import CHAT, Tmux, tmux
from treadle.rendezvous.environment import NO_DAEMON_VARIABLE

PAIR = {"agent": "assistant", "instance": "user-42"}
WORDS = ("assistant", "user-42")


@pytest.fixture(autouse=True)
def _ended(monkeypatch: pytest.MonkeyPatch, _own_folders: None) -> Iterator[None]:
    monkeypatch.delenv(NO_DAEMON_VARIABLE)
    yield
    end_daemon()


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    """Serve the built-in assistant; of every process that is started, so that none differs."""

    def reply(request: dict[str, object]) -> Answer:
        if "Slow" in str(request["messages"][-1]):  # type: ignore[index]  # a list of messages
            return Answer("One two three four", pause_after=2)
        return Answer("You are Mac." if "My name is Mac" in str(request) else "Hello.")

    async with ModelServer(reply) as server:
        monkeypatch.setenv("TREADLE_MODEL", "test-model")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@asynccontextmanager
async def chat(folder: Path, *words: str, ready: str = READY) -> AsyncIterator[Tmux]:
    async with tmux(*CHAT, *(words or WORDS), folder=made(folder)) as terminal:
        await terminal.sees(ready)
        yield terminal


async def test_the_main_job_in_two_chats_one_after_the_other(
    model: ModelServer, tmp_path: Path
) -> None:
    async with chat(tmp_path / "1") as terminal:
        await say(terminal, "My name is Mac.", "You are Mac.")
        terminal.type("/quit", "Enter")
        assert await terminal.exit_code() == 0
    async with connected() as script:
        pid = (await script.request("daemon/status"))["pid"]
    async with chat(tmp_path / "2") as terminal:
        await terminal.sees("2 messages, 1 turn")
        await say(terminal, "What is my name?", "You are Mac.")
    async with connected() as script:
        assert (await script.request("daemon/status"))["pid"] == pid


async def test_what_another_client_says_is_shown_with_its_answer(
    model: ModelServer, tmp_path: Path
) -> None:
    async with chat(tmp_path / "1") as terminal, connected() as script:
        await script.request("session/prompt", {**PAIR, "prompt": "My name is Mac."})
        await terminal.sees("▸ My name is Mac.", "You are Mac.", READY)


async def test_a_turn_goes_on_when_the_chat_is_left_and_the_next_one_shows_it(
    model: ModelServer, tmp_path: Path
) -> None:
    async with chat(tmp_path / "1") as terminal:
        terminal.type("Slow", "Enter")
        await terminal.sees("One two")
        terminal.keys("C-d")
        assert await terminal.exit_code() == 0
        await terminal.sees("the turn goes on without you")
    async with chat(tmp_path / "2", ready="Enter steers") as terminal:
        await terminal.sees("▸ Slow", "One two")
        terminal.keys("C-c")
        await terminal.sees("cancelled; what had been said is kept")
    assert messages("user-42")[-1]["content"] == "One two"


async def test_a_question_that_another_client_answers_closes_here(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt", "hello\nworld\n")])
    (tmp_path / "1").mkdir()
    async with tmux(*CHAT, AGENT, "test", folder=tmp_path / "1") as terminal:
        await terminal.sees("/help")
        async with connected(initialize=False) as script:
            await script.initialize(capabilities=client_that(requestPermission=True))
            await script.request("session/attach", here())
            terminal.type("Go", "Enter")
            await script.until(lambda: bool(script.asked))
            # What it would do is shown as a change, and can be answered here or there.
            await terminal.sees("+hello", "y: allow it once")
            answer(script, 0, outcome="allow_once")
            await terminal.sees("allowed, by another client", "Done.")
    assert (work / "a.txt").read_text() == "hello\nworld\n"


async def test_a_daemon_that_dies_is_told_and_the_chat_comes_back_by_itself(
    model: ModelServer, tmp_path: Path
) -> None:
    async with chat(tmp_path / "1") as terminal:
        await say(terminal, "My name is Mac.", "You are Mac.")
        terminal.type("Slow", "Enter")
        await terminal.sees("One two")
        kill_daemon()
        await terminal.sees("has ended", "connected again")
        await terminal.sees("the turn was interrupted; what you said is kept", READY)
        await say(terminal, "What is my name?", "You are Mac.")
    said = [one["content"] for one in messages("user-42") if one["role"] == "user"]
    assert said == ["My name is Mac.", "Slow", "What is my name?"]


async def test_prompts_are_taken_back_and_a_conversation_forks(
    model: ModelServer, tmp_path: Path
) -> None:
    async with chat(tmp_path / "1") as terminal:
        await say(terminal, "First thing", "Hello.")
        await say(terminal, "Second thing", "Hello.")
        await say(terminal, "/rewind", "1  Second thing", "2  First thing")
        await say(terminal, "/rewind 9", "a number from 1 to 2")
        await say(terminal, "/rewind 1", "2 messages left; taken back from: Second thing")
        terminal.type("/fork plan-b", "Enter")
        await terminal.sees("plan-b ·", "2 messages")
        await say(terminal, "In the copy", "Hello.")
    async with connected() as script:
        for instance, last in (("user-42", "First thing"), ("plan-b", "In the copy")):
            params = {"agent": "assistant", "instance": instance, "view": "model"}
            read = (await script.request("session/read", params))["messages"]
            assert [one["content"] for one in read if one["role"] == "user"][-1] == last


async def test_a_chat_of_its_own_leaves_the_shared_daemon_alone(
    model: ModelServer, tmp_path: Path
) -> None:
    async with connected() as script, chat(tmp_path / "1", *WORDS, "--no-daemon") as terminal:
        await say(terminal, "My name is Mac.", "You are Mac.")
        assert (await script.request("daemon/status"))["sessions"]["open"] == 0
        terminal.type("/quit", "Enter")
        assert await terminal.exit_code() == 0
