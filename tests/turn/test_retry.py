"""A model call that fails in a way that may pass is made again, and nothing is said twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.turns import cancelled, look, roles_and_texts
from treadle.errors import (
    ConfigurationError,
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelStreamBroken,
    ModelUnreachable,
    NoModel,
    RequestFailed,
)
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.turn.agent import Agent
from treadle.turn.events import Retrying, TurnDone
from treadle.turn.loop import ToolResultLoop
from treadle.turn.retry import Retry
from treadle.turn.tools import Tools

LIMITED = ModelRateLimited("slow down", retry_after_seconds=7.0)
DOWN = ModelUnreachable("not there", status=503)
BROKEN = ModelStreamBroken("broke off")


class _Told:
    """An agent that tries again, and what it did and told meanwhile."""

    def __init__(self, replies: Sequence[Reply | str], **options: Any) -> None:
        self.model = Scripted(replies)
        self.waited: list[float] = []
        self.heard: list[Retrying] = []
        self.done: list[TurnDone] = []
        options = {"sleep": self._sleep, "chance": lambda: 1.0, **options}
        self.agent = (
            Agent()
            .use(ToolResultLoop)
            .use(Tools, tools=[look])
            .use(Retry, **options)
            .run(self.model)
            .on("retrying", lambda _, payload: self.heard.append(payload))
            .on("done", lambda _, payload: self.done.append(payload))
        )

    async def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.mark.parametrize("error", [DOWN, BROKEN, ModelRateLimited("slow down")])
async def test_what_may_pass_is_tried_again_after_a_growing_wait(error: ModelError) -> None:
    told = _Told([Reply(error=error), Reply(error=error), "Here."])
    env = await told.agent.start("Hi")

    assert roles_and_texts(env.messages) == [("user", "Hi"), ("assistant", "Here.")]
    assert told.heard == [Retrying(1, error.reason, 1.0), Retrying(2, error.reason, 2.0)]
    assert told.waited == [1.0, 2.0]
    assert [done.steps for done in told.done] == [1]


async def test_waits_are_spread_by_chance_and_none_is_longer_than_the_longest() -> None:
    failing = [Reply(error=DOWN) for _ in range(8)]
    for chance, waits in ((0.0, [0.5, 1, 2, 4, 8, 15, 15]), (1.0, [1, 2, 4, 8, 16, 30, 30])):
        told = _Told(failing, max_retries=7, chance=lambda chance=chance: chance)
        with pytest.raises(ModelUnreachable):
            await told.agent.start("Hi")
        assert told.waited == waits


async def test_an_endpoint_says_itself_how_long_to_wait() -> None:
    told = _Told([Reply(error=LIMITED), "Here."])
    await told.agent.start("Hi")
    assert told.heard == [Retrying(1, "model_rate_limited", 7.0)]


async def test_an_endpoint_that_wants_too_long_a_wait_is_told_at_once() -> None:
    patient = ModelRateLimited("slow down", retry_after_seconds=61.0)
    told = _Told([Reply(error=patient)])
    with pytest.raises(ModelRateLimited) as raised:
        await told.agent.start("Hi")
    assert raised.value.data == {"retry_after_seconds": 61.0}
    assert (told.heard, told.waited) == ([], [])


@pytest.mark.parametrize(
    "error",
    [
        ModelRateLimited("the quota is used up", may_pass=False),
        ModelAuth("no"),
        ModelRefusedRequest("no"),
        ContextOverflow("too long"),
        NoModel("none", how="set one"),
    ],
)
async def test_what_no_waiting_helps_is_not_tried_again(error: RequestFailed) -> None:
    told = _Told([Reply(error=error)])
    with pytest.raises(type(error)):
        await told.agent.start("Hi")
    assert (told.heard, len(told.model.requests)) == ([], 1)


@pytest.mark.parametrize("error", [LIMITED, DOWN, BROKEN])
@pytest.mark.parametrize("said", [{"text": "One"}, {"reasoning": "Hm"}])
async def test_what_a_person_has_read_is_not_said_twice(
    error: ModelError, said: dict[str, str]
) -> None:
    told = _Told([Reply(error=error, **said)])  # type: ignore[arg-type]  # text or reasoning
    with pytest.raises(type(error)):
        await told.agent.start("Hi")
    assert (told.heard, len(told.model.requests)) == ([], 1)


async def test_after_the_last_attempt_the_error_is_told() -> None:
    told = _Told([Reply(error=DOWN)] * 3, max_retries=2)
    with pytest.raises(ModelUnreachable):
        await told.agent.start("Hi")
    assert [each.attempt for each in told.heard] == [1, 2]
    assert [(done.stop_reason, done.steps) for done in told.done] == [("error", 1)]


async def test_no_retries_means_none() -> None:
    told = _Told([Reply(error=DOWN)], max_retries=0)
    with pytest.raises(ModelUnreachable):
        await told.agent.start("Hi")
    with pytest.raises(ConfigurationError):
        await _Told(["x"], max_retries=-1).agent.start("Hi")


async def test_each_model_call_has_its_own_attempts_and_no_tool_runs_twice() -> None:
    told = _Told(
        [
            Reply(error=DOWN),
            Reply(calls=[ScriptedCall("look", id="1")]),
            Reply(error=DOWN),
            "A desk.",
        ],
        max_retries=1,
    )
    env = await told.agent.start("What?")
    assert [message.role for message in env.messages] == ["user", "assistant", "tool", "assistant"]
    assert [each.attempt for each in told.heard] == [1, 1]
    assert [done.steps for done in told.done] == [2]


async def test_a_cancel_ends_the_wait_and_with_it_the_turn() -> None:
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    told = _Told([Reply(error=DOWN)], sleep=sleep)
    await cancelled(told.agent.start("Hi"), once=waiting)
    assert [done.stop_reason for done in told.done] == ["cancelled"]


@pytest.mark.parametrize("asked", ["soon", -5, 0, float("nan"), True, [], {}])
async def test_a_wait_that_nobody_can_wait_is_as_none_asked_for(asked: Any) -> None:
    error = ModelRateLimited("slow down")
    error.data["retry_after_seconds"] = asked
    told = _Told([Reply(error=error), "Here."])
    await told.agent.start("Hi")
    assert told.waited == [1.0]
