"""The system prompt: exactly one, at the head, the same bytes each turn, never stored."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from support.turns import roles_and_texts, say
from treadle.errors import ConfigurationError
from treadle.models.scripted import Scripted
from treadle.thread.replay import load
from treadle.turn.agent import LINT_VARIABLE, Agent
from treadle.turn.session_log import SessionLog
from treadle.turn.system_prompt import SystemPrompt


def agent(path: Path, model: Scripted, instructions: str) -> Agent:
    return Agent().use(SessionLog, path=path).use(SystemPrompt, text=instructions).run(model)


async def test_instructions_lead_every_turn_in_the_same_bytes(tmp_path: Path) -> None:
    model = Scripted(["one", "two", "three"])
    chat = agent(tmp_path / "chat.jsonl", model, "Be brief.")

    for prompt in ("a", "b", "c"):
        await chat.start(prompt)

    heads = [msgspec.json.encode(request.messages[0]) for request in model.requests]
    assert heads == [b'{"role":"system","content":"Be brief."}'] * 3
    assert roles_and_texts(list(model.requests[2].messages)) == [
        ("system", "Be brief."),
        ("user", "a"),
        ("assistant", "one"),
        ("user", "b"),
        ("assistant", "two"),
        ("user", "c"),
    ]


async def test_what_was_sent_in_one_turn_is_the_beginning_of_what_is_sent_in_the_next(
    tmp_path: Path,
) -> None:
    model = Scripted(["one", "two"])
    chat = agent(tmp_path / "chat.jsonl", model, "Be brief.")

    await chat.start("a")
    await chat.start("b")

    first, second = (request.messages for request in model.requests)
    assert second[: len(first)] == first


async def test_instructions_are_never_stored(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    await agent(path, Scripted(["one"]), "Be brief.").start("a")

    assert "Be brief." not in path.read_text("utf-8")
    assert roles_and_texts(load(path).messages) == [("user", "a"), ("assistant", "one")]


async def test_edited_instructions_reach_an_old_thread(tmp_path: Path) -> None:
    path, model = tmp_path / "chat.jsonl", Scripted(["one", "two"])

    await agent(path, model, "Be brief.").start("a")
    await agent(path, model, "Be kind.").start("b")

    assert [m.text for m in model.requests[1].messages if m.role == "system"] == ["Be kind."]


async def test_empty_instructions_are_no_message() -> None:
    env = await Agent().use(SystemPrompt, text="").run(say("hello")).start("hi")

    assert [message.role for message in env.messages] == ["user", "assistant"]


async def test_of_two_instructions_the_inner_one_stands() -> None:
    chat = Agent().use(SystemPrompt, text="outer").use(SystemPrompt, text="inner")

    env = await chat.run(say("hello")).start("hi")

    assert roles_and_texts(env.messages) == [
        ("system", "inner"),
        ("user", "hi"),
        ("assistant", "hello"),
    ]


async def test_instructions_outside_the_session_log_are_an_error_and_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LINT_VARIABLE)
    path = tmp_path / "chat.jsonl"
    chat = Agent().use(SystemPrompt, text="Be brief.").use(SessionLog, path=path).run(say("hello"))

    with pytest.raises(ConfigurationError, match="inside"):
        await chat.start("hi")

    assert load(path).messages == []
