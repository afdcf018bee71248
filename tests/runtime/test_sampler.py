"""A server's tool asks the turn's model something: what it is told, and what that costs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from treadle.errors import ModelRateLimited
from treadle.models.completion import CompletionEnv
from treadle.models.scripted import Reply, Scripted, ScriptedCall, ScriptedRequest
from treadle.runtime import sampler as sampling
from treadle.runtime.outbox import Pair
from treadle.runtime.sampler import TurnSampler
from treadle.sandbox.virtual import VirtualSandbox
from treadle.secrets import hold
from treadle.thread.message import Message, Usage
from treadle.thread.thread import Thread
from treadle.tools.sampling import CannotSample
from treadle.tools.session import ToolSession
from treadle.tools.tool import ToolContext, tool
from treadle.turn.agent import Agent
from treadle.turn.default import default_agent
from treadle.turn.env import Env
from treadle.turn.max_iterations import ModelCalls

Work = Callable[[TurnSampler], Awaitable[str]]

CALLS = Reply(calls=[ScriptedCall("server")], usage=Usage(10, 1))
SAYS = Reply("All done.", usage=Usage(20, 2))


class Turn:
    """A turn whose one tool does something with the turn's sampler, as a server would."""

    def __init__(self, completion: Any, work: Work, *, max_turns: int = 5) -> None:
        self.thread = Thread.in_memory()
        self.calls = ModelCalls(max_turns)
        session = ToolSession()

        @tool(capability="read")
        async def server(*, context: ToolContext) -> str:
            """Ask."""
            assert context.session.sampler is self.sampler
            return await work(self.sampler)

        self.agent: Agent = default_agent(
            thread=self.thread,
            instructions="Be good.",
            max_turns=max_turns,
            tools=[server],
            sandbox=VirtualSandbox(),
            completion=completion,
            session=session,
            calls=self.calls,
            max_retries=0,
        )
        pair = Pair("agent", "instance")
        self.sampler = TurnSampler(completion, self.calls, "a-model", pair, self.agent)
        session.sampler = self.sampler

    async def run(self) -> Env:
        return await self.agent.start("Go.")

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(message.role, message.text) for message in self.thread.view()]


async def asks(sampler: TurnSampler) -> str:
    text, model = await sampler.sample((("user", "Sum it up."),), "Be short.", 0)
    return f"{model}: {text}"


async def is_refused(sampler: TurnSampler) -> str:
    with pytest.raises(CannotSample) as refused:
        await asks(sampler)
    return str(refused.value)


async def test_the_model_answers_a_server_and_the_thread_holds_nothing_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Scripted([CALLS, Reply("In short.", usage=Usage(5, 4)), SAYS])
    turn = Turn(model, asks)
    heard: list[object] = []
    turn.agent.on("delta", lambda env, delta: heard.append(delta.text))
    with caplog.at_level(logging.INFO, logger="treadle.runtime.sampler"):
        env = await turn.run()
    assert model.requests[1] == ScriptedRequest(
        (Message("system", "Be short."), Message("user", "Sum it up.")), ()
    )
    assert turn.said == [
        ("user", "Go."),
        ("assistant", ""),
        ("tool", "scripted: In short."),
        ("assistant", "All done."),
    ]
    assert "".join(map(str, heard)) == "All done."
    assert env.done is not None
    assert env.done.usage == Usage(35, 7)
    told = "the model answered an MCP server: 9 characters to 1 messages"
    assert [line.partition(": ")[2] for line in caplog.messages] == [told]


async def test_a_server_leaves_the_turn_its_last_model_call() -> None:
    turn = Turn(Scripted([CALLS, SAYS]), is_refused, max_turns=2)
    env = await turn.run()
    assert turn.said[-2:] == [
        ("tool", "the turn has no model calls left for this"),
        ("assistant", "All done."),
    ]
    assert env.stop_reason is None
    assert turn.calls.left == 0


async def test_each_answer_is_one_of_the_turns_model_calls() -> None:
    async def greedy(sampler: TurnSampler) -> str:
        return " ".join([await asks(sampler), await asks(sampler), await is_refused(sampler)])

    turn = Turn(Scripted([CALLS, "one", "two", SAYS]), greedy, max_turns=4)
    await turn.run()
    assert turn.said[2:] == [
        ("tool", "scripted: one scripted: two the turn has no model calls left for this"),
        ("assistant", "All done."),
    ]


async def test_a_model_that_fails_is_told_and_ends_no_turn() -> None:
    failing = Reply(error=ModelRateLimited("too fast"))
    turn = Turn(Scripted([CALLS, failing, SAYS]), is_refused)
    await turn.run()
    assert turn.said[2:] == [("tool", "the model failed: too fast"), ("assistant", "All done.")]


async def test_an_answer_that_says_nothing_is_none() -> None:
    turn = Turn(Scripted([CALLS, "", SAYS]), is_refused)
    await turn.run()
    assert turn.said[2][1] == "the model said nothing"


async def test_a_completion_that_breaks_in_its_own_way_ends_no_turn() -> None:
    scripted = Scripted([CALLS, SAYS])

    async def broken(env: CompletionEnv) -> None:
        if not env.tools:
            raise ZeroDivisionError
        await scripted(env)

    turn = Turn(broken, is_refused)
    await turn.run()
    assert turn.said[2][1] == "the model failed; the daemon's log says how"


async def test_an_answer_is_no_longer_than_was_asked_for() -> None:
    async def asks_little(sampler: TurnSampler) -> str:
        return (await sampler.sample((("user", "?"),), "", 2))[0]

    turn = Turn(Scripted([CALLS, "0123456789", SAYS]), asks_little)
    await turn.run()
    assert turn.said[2][1] == "01234567"


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ((), "the last message is to be a user's, and to say something"),
        ((("user", " "),), "the last message is to be a user's, and to say something"),
        ((("user", "a"), ("assistant", "b")), "the last message is to be a user's, and to say"),
        ((("user", "x" * 200_001),), "that is more than 200,000 characters"),
    ],
)
async def test_what_no_model_can_answer_is_refused_and_costs_nothing(
    messages: Any, told: str
) -> None:
    async def asks_strangely(sampler: TurnSampler) -> str:
        with pytest.raises(CannotSample, match=told):
            await sampler.sample(messages, "", 0)
        return "refused"

    turn = Turn(Scripted([CALLS, SAYS]), asks_strangely)
    await turn.run()
    assert (turn.said[2][1], turn.calls.left) == ("refused", 3)


async def test_no_secret_reaches_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLER_KEY", "hunter2hunter2")
    hold("SAMPLER_KEY")

    async def tells(sampler: TurnSampler) -> str:
        return (await sampler.sample((("user", "a hunter2hunter2"),), "b hunter2hunter2", 0))[0]

    model = Scripted([CALLS, "hunter2hunter2 said", SAYS])
    turn = Turn(model, tells)
    await turn.run()
    assert [message.text for message in model.requests[1].messages] == [
        "b [secret SAMPLER_KEY]",
        "a [secret SAMPLER_KEY]",
    ]
    assert turn.said[2][1] == "[secret SAMPLER_KEY] said"


async def test_without_a_turn_nobody_answers() -> None:
    turn = Turn(Scripted([CALLS, "x", SAYS]), asks)
    assert await is_refused(turn.sampler) == "no turn runs that could ask its model"
    await turn.run()
    assert await is_refused(turn.sampler) == "no turn runs that could ask its model"


class Silent:
    """Calls the tool, and then never answers."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.was_cancelled = asyncio.Event()

    async def __call__(self, env: CompletionEnv) -> None:
        if env.tools:
            await Scripted([CALLS])(env)
            return
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cancelled.set()


async def test_what_a_server_asks_in_a_task_of_its_own_ends_with_the_turn() -> None:
    model = Silent()
    told: list[asyncio.Task[str]] = []

    async def asks_elsewhere(sampler: TurnSampler) -> str:
        told.append(asyncio.create_task(is_refused(sampler)))
        return await told[0]

    turn = asyncio.create_task(Turn(model, asks_elsewhere).run())
    async with asyncio.timeout(20):
        await model.is_asked.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await asyncio.wait(told)
        await model.was_cancelled.wait()


async def test_a_caller_that_is_cancelled_stops_the_model() -> None:
    model = Silent()

    async def gives_up(sampler: TurnSampler) -> str:
        asking = asyncio.create_task(asks(sampler))
        await model.is_asked.wait()
        asking.cancel()
        ended = await asyncio.gather(asking, return_exceptions=True)
        return f"{type(ended[0]).__name__}, {model.was_cancelled.is_set()}"

    turn = Turn(model, gives_up, max_turns=3)
    async with asyncio.timeout(20):
        await turn.run()
    assert turn.said[2][1] == "CancelledError, True"


async def test_a_model_that_never_answers_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "SAMPLE_SECONDS", 0.01)
    turn = Turn(Silent(), is_refused, max_turns=3)
    async with asyncio.timeout(20):
        await turn.run()
    assert turn.said[2][1] == "the model has not answered within 0 seconds"
