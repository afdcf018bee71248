"""What a provider refuses, and what cannot fit: once more, with less, or a typed error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.compacting import (
    OVERFLOW,
    WINDOW,
    Talk,
    browse,
    filled,
    size_of_request,
    slide,
)
from support.turns import look
from treadle.compaction.compactor import Compactor
from treadle.compaction.settings import CompactionSettings
from treadle.compaction.told import Compacting
from treadle.errors import ContextOverflow, ModelUnreachable
from treadle.models.scripted import Reply, Scripted
from treadle.sandbox.virtual import VirtualSandbox
from treadle.stack.stack import App
from treadle.thread.thread import Thread
from treadle.tools.tool import Tool
from treadle.turn.agent import Agent
from treadle.turn.compaction import Compaction
from treadle.turn.default import default_agent
from treadle.turn.env import Env
from treadle.turn.session_log import SessionLog
from treadle.turn.tools import Tools


async def test_an_overflow_is_answered_by_a_compaction_and_the_call_is_made_once_more(
    thread: Thread,
) -> None:
    talk = Talk(thread, keep_steps=1)
    await filled(thread, 200)
    model = await talk.say("And?", Reply(error=OVERFLOW), "Fine.")

    (end,) = talk.ends
    assert isinstance(talk.told[0], Compacting) and talk.told[0].trigger == "overflow"
    assert end.outcome == "completed"
    # Aimed at a part of what was refused, since the window says nothing.
    assert end.tokens_after <= end.tokens_before * 0.4
    assert size_of_request(model, 1) < size_of_request(model, 0) * 0.6
    (done,) = talk.done
    assert (done.text, done.stop_reason, done.steps) == ("Fine.", "end_turn", 1)


async def test_a_window_that_overflows_whatever_goes_ends_in_an_error_after_two_strikes(
    thread: Thread,
) -> None:
    talk = Talk(thread, keep_steps=0)
    await filled(thread, 250)
    model = Scripted([Reply(error=OVERFLOW)] * 9)
    with pytest.raises(ContextOverflow) as raised:
        await talk.agent(model).start("And?")

    assert len(model.requests) == 1 + len(talk.ends) == 3
    assert [end.outcome for end in talk.ends] == ["completed", "completed"]
    assert size_of_request(model, 2) < size_of_request(model, 1) < size_of_request(model, 0)
    assert raised.value.__cause__ is OVERFLOW
    assert raised.value.data["window"] == WINDOW
    assert 0 < raised.value.data["overhead_tokens"] < WINDOW
    assert [(done.stop_reason, done.steps) for done in talk.done] == [("error", 1)]
    # The thread takes the next prompt.
    assert (await talk.say("Again?", "Fine.")).requests
    assert talk.done[-1].text == "Fine."


async def test_what_cannot_shrink_is_not_sent_again(thread: Thread) -> None:
    talk = Talk(thread)
    model = Scripted([Reply(error=OVERFLOW)] * 9)
    with pytest.raises(ContextOverflow) as raised:
        await talk.agent(model).start("And?")
    assert len(model.requests) == 1
    # It is small, so what the provider says cannot be told as if it were so.
    assert "does not fit" not in raised.value.message
    assert raised.value.message.startswith(
        "the model's endpoint refuses the conversation as too long, also as it is now: about "
    )
    assert f"in a window that we take for {WINDOW}. If" in raised.value.message
    assert [end.outcome for end in talk.ends] == ["declined", "declined"]


async def test_an_overflow_in_the_midst_of_an_answer_says_nothing_twice(thread: Thread) -> None:
    talk = Talk(thread)
    await filled(thread, 250)
    model = Scripted([Reply("Well, ", error=OVERFLOW), "Fine."])
    with pytest.raises(ContextOverflow) as raised:
        await talk.agent(model).start("And?")
    assert raised.value is OVERFLOW and talk.told == []
    assert thread.messages[-1].text == "Well, " and thread.messages[-1].partial


async def test_another_failure_of_the_model_compacts_nothing(thread: Thread) -> None:
    talk = Talk(thread)
    await filled(thread, 250)
    with pytest.raises(ModelUnreachable):
        await talk.agent(Scripted([Reply(error=ModelUnreachable("gone"))])).start("And?")
    assert talk.told == []


async def test_a_provider_that_names_its_window_is_believed(thread: Thread) -> None:
    talk = Talk(thread, keep_steps=0)
    await filled(thread, 200)
    refusal = ContextOverflow("at most 300 tokens", window=300)
    await talk.say("And?", Reply(error=refusal), "Fine.")
    assert talk.compactor.window == 300
    assert talk.ends[0].tokens_after <= 120
    await filled(thread, 200, turns=2)
    assert size_of_request(await talk.say("And?", "Fine.")) <= 210
    assert [told.trigger for told in talk.told if isinstance(told, Compacting)] == [
        "overflow",
        "threshold",
    ]


async def test_what_a_provider_counted_tells_how_far_a_compaction_has_to_go(
    thread: Thread,
) -> None:
    talk = Talk(thread, keep_steps=0)
    await filled(thread, 200)
    # As much text has three times as many tokens here as an approximation makes of it.
    refusal = ContextOverflow("too long")
    refusal.data["asked_tokens"] = 528 * 3
    model = await talk.say("And?", Reply(error=refusal), "Fine.")
    (end,) = talk.ends
    assert abs(end.tokens_before - 528 * 3) <= 8 and end.tokens_after <= WINDOW * 0.4
    assert size_of_request(model, 1) <= WINDOW * 0.4 / 3


async def test_instructions_larger_than_the_window_are_an_error_before_a_call_is_spent(
    thread: Thread,
) -> None:
    talk = Talk(thread)
    model = Scripted(["never"])
    with pytest.raises(ContextOverflow) as raised:
        await talk.agent(model, instructions="i" * 8_000).start("And?")
    assert (model.requests, talk.told) == ([], [])
    assert raised.value.data["window"] == WINDOW
    assert raised.value.data["overhead_tokens"] > 2_000
    assert f"does not fit into the model's window of {WINDOW} tokens" in raised.value.message


async def test_a_task_larger_than_the_window_is_an_error_before_a_call_is_spent(
    thread: Thread,
) -> None:
    talk = Talk(thread)
    await filled(thread)
    model = Scripted(["never"])
    with pytest.raises(ContextOverflow) as raised:
        await talk.agent(model).start("x" * 8_000)
    assert model.requests == [] and raised.value.data["overhead_tokens"] > 2_000
    # It is the task no more once the person has gone on, and then it goes.
    await talk.say("Leave it.", "Fine.")
    assert talk.done[-1].text == "Fine." and talk.ends[-1].outcome == "completed"


async def test_an_agents_own_layer_sees_one_pass_where_a_call_is_made_once_more(
    thread: Thread,
) -> None:
    seen: list[int] = []

    class Watch:
        def __init__(self, app: App[Env]) -> None:
            self._app = app

        async def __call__(self, env: Env) -> None:
            seen.append(len(env.messages))
            await self._app(env)
            seen.append(len(env.messages))

    talk = Talk(thread)
    await filled(thread, 200)
    model = Scripted([Reply(error=OVERFLOW), "Fine."])
    agent = default_agent(
        thread=thread,
        instructions="Be brief.",
        max_turns=1,
        tools=[look],
        sandbox=VirtualSandbox(),
        completion=model,
        own_layers=[(Watch, {})],
        compactor=talk.compactor,
    )
    env = await agent.start("And?")
    assert seen == [10, len(model.requests[1].messages) + 1] and len(env.messages) == seen[1]
    # It costs none of the model calls that a prompt may make.
    assert env.stop_reason is None and len(talk.ends) == 1


async def test_tools_that_come_and_go_are_counted_before_the_first_call(thread: Thread) -> None:
    spec = replace(browse.spec, description="w" * 8_000)

    async def source() -> Sequence[Tool]:
        return [replace(browse, spec=spec)]

    compactor = Compactor(
        settings=CompactionSettings(), window=WINDOW, ladder=slide(), tell=lambda _: None
    )
    model = Scripted(["never"])
    agent = (
        Agent()
        .use(SessionLog, thread=thread)
        .use(Compaction, compactor=compactor, tools=[look], source=source)
        .use(Tools, tools=[look], source=source)
        .run(model)
    )
    with pytest.raises(ContextOverflow):
        await agent.start("Hello.")
    assert model.requests == []
