"""The events of a turn: every payload, in order, to subscribers that cannot hurt it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.turns import look, say
from treadle.errors import ConfigurationError
from treadle.models.completion import Delta, ModelCall
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.thread.message import Message, ToolCall, Usage
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import (
    EVENT_NAMES,
    StepStarted,
    ToolCallStarted,
    ToolResultLanded,
    TurnDone,
    TurnStarted,
)
from treadle.turn.loop import ToolResultLoop
from treadle.turn.max_iterations import MaxIterations
from treadle.turn.tools import Tools


def comparable(payload: Any) -> Any:
    """A payload without what differs from run to run."""
    if isinstance(payload, ToolResultLanded):
        assert payload.duration_seconds >= 0
        return replace(payload, duration_seconds=0)
    return payload


async def test_a_turn_with_tools_tells_all_that_happens_in_order() -> None:
    usage = Usage(10, 2)
    model = Scripted(
        [
            Reply("Let me see.", calls=[ScriptedCall("look", id="1")], usage=usage),
            Reply("A desk.", reasoning="Hm.", usage=usage),
        ]
    )
    agent = Agent().use(ToolResultLoop).use(Tools, tools=[look]).run(model)
    heard: list[tuple[str, Any]] = []
    envs: list[Env] = []
    for name in EVENT_NAMES:
        agent.on(name, lambda _, payload, name=name: heard.append((name, comparable(payload))))
        agent.on(name, lambda env, _: envs.append(env))

    env = await agent.start("what?")

    called = ToolCall("1", "look")
    assert heard == [
        ("turn", TurnStarted((Message("user", "what?"),))),
        ("step", StepStarted(1)),
        ("model_call", ModelCall("scripted", 1)),
        ("delta", Delta("text", "Let")),
        ("delta", Delta("text", " me")),
        ("delta", Delta("text", " see.")),
        ("tool_call", ToolCallStarted(called, "read")),
        (
            "tool_result",
            ToolResultLanded(called, Message("tool", "a desk", tool_call_id="1"), False, 0),
        ),
        ("step", StepStarted(2)),
        ("model_call", ModelCall("scripted", 3)),
        ("delta", Delta("reasoning", "Hm.")),
        ("delta", Delta("text", "A")),
        ("delta", Delta("text", " desk.")),
        ("done", TurnDone("end_turn", "A desk.", usage + usage, steps=2)),
    ]
    assert all(each is env for each in envs)


async def test_an_unknown_tool_needs_no_capability() -> None:
    heard: list[ToolCallStarted] = []
    model = Scripted([Reply(calls=[ScriptedCall("lok", id="1")])])
    agent = Agent().use(Tools, tools=[look]).run(model)

    await agent.on("tool_call", lambda _, started: heard.append(started)).start("what?")

    assert heard == [ToolCallStarted(ToolCall("1", "lok"), "none")]


async def test_a_pass_that_the_guard_refuses_is_announced_and_calls_no_model() -> None:
    heard: list[str] = []
    model = Scripted([Reply(calls=[ScriptedCall("look")])])
    agent = Agent().use(ToolResultLoop).use(MaxIterations, limit=1).use(Tools, tools=[look])
    for name in ("step", "model_call", "tool_result", "done"):
        agent.on(name, lambda *_, name=name: heard.append(name))

    await agent.run(model).start("what?")

    assert heard == ["step", "model_call", "tool_result", "step", "done"]


async def test_a_subscriber_that_raises_at_every_event_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    def fail(env: Env, payload: object) -> None:
        raise RuntimeError("not my day")

    agent = Agent().use(ToolResultLoop).use(Tools, tools=[look])
    for name in EVENT_NAMES:
        agent.on(name, fail).on(name, lambda *_, name=name: heard.append(name))

    env = await agent.run(Scripted([Reply("x", calls=[ScriptedCall("look")]), "y"])).start("?")

    assert [message.role for message in env.messages] == ["user", "assistant", "tool", "assistant"]
    assert set(heard) == {*EVENT_NAMES} - {
        *("retrying", "task", "tool_progress"),
        *("compacting", "compacted"),
    }
    assert len(caplog.records) == len(heard)


async def test_an_agent_refuses_a_subscriber_to_no_event_and_one_nobody_would_await() -> None:
    async def later(env: Env, payload: object) -> None: ...

    agent = Agent().run(say("ok"))

    with pytest.raises(ConfigurationError, match="no event 'finished'"):
        agent.on("finished", print)
    with pytest.raises(ConfigurationError, match="coroutine function"):
        agent.on("done", later)
