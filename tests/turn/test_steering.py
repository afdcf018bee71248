"""What is said to a turn while it runs: it enters in order, and no word is lost at any end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.turns import Thinking, cancelled, look, roles_and_texts, turn_records
from treadle.errors import ConfigurationError, ModelUnreachable
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.stack.stack import App
from treadle.thread.message import Message
from treadle.thread.replay import load
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone
from treadle.turn.loop import ToolResultLoop
from treadle.turn.max_iterations import MaxIterations
from treadle.turn.session_log import SessionLog
from treadle.turn.steering import Inbox, Steering
from treadle.turn.tools import Tools

LOOK = ScriptedCall("look", id="1")


class _Steered:
    """An agent with an inbox; `say` speaks into it whenever an event is told."""

    def __init__(self, path: Path, completion: App[Env], limit: int = 10) -> None:
        self.inbox = Inbox()
        self.path = path
        self.done: list[TurnDone] = []
        self.agent = (
            Agent()
            .use(SessionLog, path=path)
            .use(ToolResultLoop, inbox=self.inbox)
            .use(Steering, inbox=self.inbox)
            .use(MaxIterations, limit=limit)
            .use(Tools, tools=[look])
            .run(completion)
            .on("done", lambda _, done: self.done.append(done))
        )

    def say(self, text: str, *, at: str, once: Callable[[Any], bool] = lambda _: True) -> None:
        """Speak once, at the first event for which the condition holds."""
        said: list[bool] = []

        def speak(_: Env, payload: Any) -> None:
            if not said and once(payload):
                said.append(self.inbox.put(Message("user", text)))

        self.agent.on(at, speak)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """What the thread's file holds; every turn in it has ended, and nothing waits."""
        loaded = load(self.path)
        assert loaded.unfinished is None
        assert self.inbox.is_empty
        assert self.inbox.is_sealed
        return roles_and_texts(loaded.messages)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


async def test_text_enters_after_the_results_and_before_the_next_model_call(path: Path) -> None:
    model = Scripted([Reply("Looking.", calls=[LOOK]), "A desk."])
    turn = _Steered(path, model)
    turn.say("Be brief.", at="tool_call")
    await turn.agent.start("What is there?")
    assert turn.kept == [
        ("user", "What is there?"),
        ("assistant", "Looking."),
        ("tool", "a desk"),
        ("user", "Be brief."),
        ("assistant", "A desk."),
    ]
    assert [message.role for message in model.requests[1].messages][-2:] == ["tool", "user"]


async def test_text_during_the_last_words_makes_the_turn_go_on(path: Path) -> None:
    turn = _Steered(path, Scripted(["One two.", "And three."]))
    turn.say("More.", at="delta", once=lambda delta: delta.text == " two.")
    await turn.agent.start("Count")
    assert turn.kept[1:] == [
        ("assistant", "One two."),
        ("user", "More."),
        ("assistant", "And three."),
    ]
    assert [(done.stop_reason, done.text, done.steps) for done in turn.done] == [
        ("end_turn", "And three.", 2)
    ]


async def test_several_texts_enter_in_the_order_of_their_arrival(path: Path) -> None:
    turn = _Steered(path, Scripted(["One.", "Two."]))
    for text in "abc":
        turn.say(text, at="delta")
    await turn.agent.start("Go")
    assert turn.kept[2:5] == [("user", "a"), ("user", "b"), ("user", "c")]


async def test_text_before_the_first_model_call_is_part_of_it(path: Path) -> None:
    model = Scripted(["Fine."])
    turn = _Steered(path, model)
    assert turn.inbox.put(Message("user", "And be brief."))
    await turn.agent.start("Go")
    assert turn.kept == [("user", "Go"), ("user", "And be brief."), ("assistant", "Fine.")]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_an_answer_that_was_cut_short_goes_on_with_what_the_person_says(
    path: Path, finish: str
) -> None:
    turn = _Steered(path, Scripted([Reply("One", finish=finish), "Two."]))
    turn.say("Go on.", at="delta")
    await turn.agent.start("Count")
    assert [done.stop_reason for done in turn.done] == ["end_turn"]
    assert turn.kept[1:] == [("assistant", "One"), ("user", "Go on."), ("assistant", "Two.")]


async def test_text_at_the_limit_of_model_calls_is_kept_and_not_answered(path: Path) -> None:
    turn = _Steered(path, Scripted(["One."]), limit=1)
    turn.say("More.", at="delta")
    await turn.agent.start("Count")
    assert turn.kept[1:] == [("assistant", "One."), ("user", "More.")]
    assert [(done.stop_reason, done.text) for done in turn.done] == [("max_turns", "One.")]


async def test_text_that_meets_an_error_is_kept_before_the_turn_s_end(path: Path) -> None:
    turn = _Steered(path, Scripted([Reply("One", error=ModelUnreachable("gone"))]))
    turn.say("More.", at="delta")
    with pytest.raises(ModelUnreachable):
        await turn.agent.start("Count")
    assert turn.kept[1:] == [("assistant", "One"), ("user", "More.")]
    assert turn_records(path)[-1].stop_reason == "error"


async def test_text_that_meets_a_cancel_is_kept_before_the_turn_s_end(path: Path) -> None:
    thinking = Thinking()
    turn = _Steered(path, thinking)
    begun = asyncio.Event()

    async def speak() -> None:
        await thinking.begun.wait()
        assert turn.inbox.put(Message("user", "Never mind."))
        begun.set()

    speaking = asyncio.create_task(speak())
    await cancelled(turn.agent.start("Think"), once=begun)
    await speaking
    assert turn.kept == [("user", "Think"), ("user", "Never mind.")]
    assert not turn.inbox.put(Message("user", "Too late"))


async def test_text_for_a_turn_that_somebody_ends_is_kept(path: Path) -> None:
    async def completion(env: Env) -> None:
        turn.inbox.put(Message("user", "More."))
        await env.append(Message("assistant", "One."))
        env.should_exit = True

    turn = _Steered(path, completion)
    await turn.agent.start("Count")
    assert turn.kept[1:] == [("assistant", "One."), ("user", "More.")]


async def test_text_after_the_decision_to_end_enters_no_turn_and_the_next_one_takes_text_again(
    path: Path,
) -> None:
    turn = _Steered(path, Scripted(["One.", "Two.", "Three."]))
    taken: list[bool] = []
    turn.agent.on("done", lambda *_: taken.append(turn.inbox.put(Message("user", "Late"))))
    await turn.agent.start("a")
    turn.say("More.", at="delta")
    await turn.agent.start("b")
    assert taken == [False, False]
    assert [text for role, text in turn.kept if role == "user"] == ["a", "b", "More."]


def test_only_what_a_person_says_can_enter() -> None:
    inbox = Inbox()
    with pytest.raises(ConfigurationError):
        inbox.put(Message("user", "a"), Message("system", "b"))
    assert inbox.is_empty
