"""The loop is a layer: a do-while with a condition, and a guard inside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.turns import call, look, roles_and_texts, say, turn_records
from treadle.errors import ConfigurationError
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.stack.stack import App
from treadle.thread.message import Message, ToolCall
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone
from treadle.turn.loop import Loop, ToolResultLoop
from treadle.turn.max_iterations import MaxIterations
from treadle.turn.session_log import SessionLog
from treadle.turn.tools import Tools


async def test_the_inner_stack_runs_once_and_again_while_the_condition_holds() -> None:
    iterations: list[int] = []

    async def count(env: Env) -> None:
        iterations.append(env.iteration)
        await env.append(Message("assistant", f"pass {env.iteration}"))

    env = await (
        Agent().use(Loop, condition=lambda env: len(env.messages) < 4).run(count).start("go")
    )

    assert iterations == [1, 2, 3]
    assert env.messages[-1].text == "pass 3"


async def test_a_loop_whose_condition_never_holds_still_runs_once() -> None:
    env = await Agent().use(Loop, condition=lambda env: False).run(say("once")).start("go")

    assert roles_and_texts(env.messages) == [("user", "go"), ("assistant", "once")]


async def test_the_tool_loop_lets_the_model_read_results_until_it_calls_no_more() -> None:
    model = Scripted(
        [Reply(calls=[ScriptedCall("look")]), Reply(calls=[ScriptedCall("look")]), "A desk."]
    )
    env = await Agent().use(ToolResultLoop).use(Tools, tools=[look]).run(model).start("what?")

    assert roles_and_texts(env.messages) == [
        ("user", "what?"),
        ("assistant", ""),
        ("tool", "a desk"),
        ("assistant", ""),
        ("tool", "a desk"),
        ("assistant", "A desk."),
    ]
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
    assert env.iteration == 3


class LeaveAfterThisPass:
    """Asks the loop to end, however it would go on."""

    def __init__(self, app: App[Env]) -> None:
        self._app = app

    async def __call__(self, env: Env) -> None:
        await self._app(env)
        env.should_exit = True


@pytest.mark.parametrize(
    ("loop", "options"),
    [(ToolResultLoop, {}), (Loop, {"condition": lambda env: env.iteration < 9})],
)
async def test_should_exit_ends_every_loop_after_its_pass(loop: type, options: dict) -> None:
    agent = Agent().use(loop, **options).use(LeaveAfterThisPass).use(Tools, tools=[look])

    env = await agent.run(call(ToolCall("1", "look"))).start("what?")

    assert roles_and_texts(env.messages) == [
        ("user", "what?"),
        ("assistant", ""),
        ("tool", "a desk"),
    ]


async def test_a_turn_that_uses_up_its_model_calls_ends_with_a_typed_reason(
    tmp_path: Path,
) -> None:
    path, ends = tmp_path / "chat.jsonl", list[TurnDone]()
    model = Scripted([Reply(calls=[ScriptedCall("look")])] * 2 + ["A desk."])
    agent = (
        Agent()
        .use(SessionLog, path=path)
        .use(ToolResultLoop)
        .use(MaxIterations, limit=2)
        .use(Tools, tools=[look])
        .run(model)
        .on("done", lambda _, done: ends.append(done))
    )

    env = await agent.start("what?")

    # Nobody is made to say what they did not say.
    assert [message.role for message in env.messages] == [
        "user",
        *("assistant", "tool"),
        *("assistant", "tool"),
    ]
    assert [(done.stop_reason, done.steps) for done in ends] == [("max_turns", 2)]
    assert turn_records(path)[-1].stop_reason == "max_turns"

    # The thread is valid afterwards: the next turn sends all of it, and is answered.
    after = await agent.start("and now?")
    assert after.messages[:-1] == list(model.requests[-1].messages)
    assert after.messages[:5] == env.messages
    assert after.messages[-1].text == "A desk."
    assert ends[-1].stop_reason == "end_turn"


async def test_the_guard_ends_a_loop_whose_own_condition_never_fails() -> None:
    # It would go on for much longer, and let nobody else run meanwhile.
    agent = Agent().use(Loop, condition=lambda env: env.iteration < 99)

    env = await agent.use(MaxIterations, limit=3).run(say("again")).start("go")

    assert (env.stop_reason, env.iteration) == ("max_turns", 4)
    assert len(env.messages) == 4


async def test_an_answer_in_the_last_allowed_pass_is_an_ordinary_end() -> None:
    agent = Agent().use(ToolResultLoop).use(MaxIterations, limit=1).run(say("hello"))

    env = await agent.start("hi")

    assert env.stop_reason is None
    assert env.messages[-1].text == "hello"


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_is_an_error_before_anything_is_said(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        await Agent().use(MaxIterations, limit=limit).run(say("hello")).start("hi")
