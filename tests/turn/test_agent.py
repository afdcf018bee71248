"""An agent: layers around a completion, and one env for each turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.turns import Thinking, cancelled, roles_and_texts, say
from support.waiting import PATIENCE_SECONDS
from treadle.errors import ConfigurationError, ModelAuth
from treadle.models.scripted import Reply, Scripted
from treadle.stack.stack import App
from treadle.thread.message import Message, ToolCall, Usage
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone


class Note:
    """A layer as anybody may write one: a class with one `async __call__(env)`."""

    def __init__(self, app: App[Env], *, name: str, notes: list[str]) -> None:
        self._app = app
        self._name = name
        self._notes = notes

    async def __call__(self, env: Env) -> None:
        self._notes.append(f"{self._name} in")
        await self._app(env)
        self._notes.append(f"{self._name} out")


def done_of(agent: Agent) -> list[TurnDone]:
    """Gather how an agent's turns end."""
    ends: list[TurnDone] = []
    agent.on("done", lambda _, done: ends.append(done))
    return ends


async def test_a_turn_goes_down_through_the_layers_and_back_up() -> None:
    notes: list[str] = []
    agent = (
        Agent()
        .use(Note, name="outer", notes=notes)
        .use(Note, name="inner", notes=notes)
        .run(say("hello"))
    )

    env = await agent.start("hi")

    assert notes == ["outer in", "inner in", "inner out", "outer out"]
    assert roles_and_texts(env.messages) == [("user", "hi"), ("assistant", "hello")]


async def test_without_a_completion_a_start_fails_at_once() -> None:
    notes: list[str] = []
    agent = Agent().use(Note, name="layer", notes=notes)
    ends = done_of(agent)

    with pytest.raises(ConfigurationError, match="call run"):
        await agent.start("hi")

    assert (notes, ends) == ([], [])


async def test_an_option_that_a_layer_does_not_take_is_an_error_before_anything_is_said() -> None:
    agent = Agent().use(Note, nmae="typo").run(say("hello"))
    ends = done_of(agent)

    with pytest.raises(TypeError, match="nmae"):
        await agent.start("hi")

    assert ends == []


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ("hi", [Message("user", "hi")]),
        (Message("user", "hi"), [Message("user", "hi")]),
        (Message("user", [{"type": "image", "uri": "a.png"}]),) * 2,
        (
            [Message("user", "a"), Message("assistant", "b"), Message("user", "c")],
            [Message("user", "a"), Message("assistant", "b"), Message("user", "c")],
        ),
        (
            [Message("assistant", tool_calls=[ToolCall("1", "f")]), Message("tool", "", [], "1")],
            [Message("assistant", tool_calls=[ToolCall("1", "f")]), Message("tool", "", [], "1")],
        ),
    ],
    ids=["text", "message", "blocks", "messages", "calls without text"],
)
async def test_a_prompt_is_text_a_message_or_several(prompt: Any, messages: Any) -> None:
    messages = [messages] if isinstance(messages, Message) else messages

    env = await Agent().run(say("ok")).start(prompt)

    assert env.messages == [*messages, Message("assistant", "ok")]


@pytest.mark.parametrize("prompt", ["", " \n", [], Message("user"), Message("user", [])])
async def test_a_prompt_that_says_nothing_is_refused(prompt: Any) -> None:
    with pytest.raises(ConfigurationError, match="say something"):
        await Agent().run(say("ok")).start(prompt)


async def test_a_prompt_that_is_no_prompt_is_refused() -> None:
    agent = Agent().run(say("ok"))

    with pytest.raises(ConfigurationError, match="not 'hi'"):
        await agent.start(["hi"])  # type: ignore[list-item]  # what a person may well try
    with pytest.raises(ConfigurationError, match="SystemPrompt"):
        await agent.start([Message("system", "be brief"), Message("user", "hi")])


async def test_the_callers_list_of_messages_is_left_alone() -> None:
    prompt = [Message("user", "hi")]

    env = await Agent().run(say("ok")).start(prompt)

    assert prompt == [Message("user", "hi")]
    assert env.messages is not prompt


async def test_the_env_holds_what_a_layer_may_need_and_is_fresh_each_turn() -> None:
    seen: list[Env] = []

    async def look(env: Env) -> None:
        assert env.messages == [Message("user", "hi")]
        assert (env.iteration, env.should_exit, env.stop_reason) == (1, False, None)
        assert (env.tools, env.thread) == ([], None)
        assert set(env.metadata) == {"started_at", "app.user"}
        seen.append(env)
        env.metadata["app.left"] = 1
        env.should_exit = True
        await env.append(Message("assistant", "ok"))

    agent = Agent().run(look)
    first = await agent.start("hi", metadata={"app.user": "mac"})
    second = await agent.start("hi", metadata={"app.user": "mac"})

    assert seen[0] is first and seen[1] is second and first is not second
    assert first.metadata["started_at"].endswith("Z")
    assert first.metadata["timings"].keys() == {"turn_seconds"}
    assert 0 < first.metadata["timings"]["turn_seconds"] < PATIENCE_SECONDS


async def test_a_layer_is_built_anew_for_each_turn_so_nothing_it_keeps_outlives_one() -> None:
    class Count:
        def __init__(self, app: App[Env]) -> None:
            self._app = app
            self._turns = 0

        async def __call__(self, env: Env) -> None:
            self._turns += 1
            env.metadata["count.turns"] = self._turns
            await self._app(env)

    agent = Agent().use(Count).run(say("ok"))

    assert [(await agent.start("hi")).metadata["count.turns"] for _ in range(2)] == [1, 1]


async def test_turns_of_one_agent_may_run_side_by_side() -> None:
    meeting = asyncio.Barrier(2)

    async def meet(env: Env) -> None:
        await meeting.wait()
        await env.append(Message("assistant", f"{env.messages[0].text}, {len(env.messages)}"))

    agent = Agent().run(meet)
    async with asyncio.timeout(PATIENCE_SECONDS):
        envs = await asyncio.gather(agent.start("a"), agent.start("b"))

    assert [env.messages[-1].text for env in envs] == ["a, 1", "b, 1"]


async def test_a_turns_end_sums_up_what_it_said_and_not_what_it_was_told() -> None:
    usage = Usage(10, 5)
    agent = Agent().run(Scripted([Reply("Paris", usage=usage)]))
    ends = done_of(agent)

    await agent.start(
        [Message("user", "?"), Message("assistant", "Rome", usage=usage), Message("user", "no")]
    )

    assert ends == [TurnDone("end_turn", "Paris", usage, steps=1)]


async def test_the_steps_of_a_completion_that_announces_nothing_are_its_messages() -> None:
    agent = Agent().run(say("hello"))
    ends = done_of(agent)

    await agent.start("hi")

    assert ends == [TurnDone("end_turn", "hello", Usage(), steps=1)]


async def test_a_model_call_that_failed_before_its_first_word_is_a_step_too() -> None:
    error = ModelAuth("no")
    agent = Agent().run(Scripted([Reply(error=error)]))
    ends = done_of(agent)

    with pytest.raises(ModelAuth):
        await agent.start("hi")

    assert ends == [TurnDone("error", "", Usage(), steps=1, error=error)]


async def test_a_cancelled_turn_ends_as_cancelled_and_raises_that() -> None:
    thinking = Thinking()
    agent = Agent().run(thinking)
    ends = done_of(agent)

    await cancelled(agent.start("hi"), once=thinking.begun)

    assert [(done.stop_reason, done.text, done.steps) for done in ends] == [("cancelled", "", 0)]


async def test_a_turn_that_somebody_else_ends_says_who() -> None:
    thinking, envs = Thinking(), list[Env]()
    agent = Agent().run(thinking).on("turn", lambda env, _: envs.append(env))
    ends = done_of(agent)

    turn = asyncio.create_task(agent.start("hi"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await thinking.begun.wait()
        envs[0].stop_reason = "closed"
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert [done.stop_reason for done in ends] == ["closed"]


async def test_an_exit_of_the_process_inside_a_turn_is_passed_on_after_its_end() -> None:
    async def leave(env: Env) -> None:
        raise GeneratorExit

    agent = Agent().run(leave)
    ends = done_of(agent)

    with pytest.raises(GeneratorExit):
        await agent.start("hi")

    assert [done.stop_reason for done in ends] == ["error"]
