"""The contract of layers: whoever breaks a clause is caught, and the clause is quoted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.turns import say
from treadle.models.completion import ToolSpec
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.sandbox.virtual import VirtualSandbox
from treadle.stack.stack import App
from treadle.thread.message import Message
from treadle.thread.thread import Thread
from treadle.tools.files.read import read
from treadle.turn.agent import LINT_VARIABLE, Agent
from treadle.turn.default import default_agent
from treadle.turn.env import Env
from treadle.turn.lint import LintError

Break = Callable[[Env], object]


class Before:
    """A layer that breaks the contract on the way in."""

    def __init__(self, app: App[Env], *, breaks: Break) -> None:
        self._app = app
        self._breaks = breaks

    async def __call__(self, env: Env) -> None:
        self._breaks(env)
        await self._app(env)


class After(Before):
    """The same on the way out."""

    async def __call__(self, env: Env) -> None:
        await self._app(env)
        self._breaks(env)


async def place_twice(env: Env) -> None:
    await env.append(Message("assistant", "hello"))
    await env.append(Message("system", "late instructions"))


def _set(name: str, value: Any) -> Break:
    return lambda env: setattr(env, name, value)


CLAUSES: dict[str, tuple[Break, str]] = {
    "grows by itself": (
        lambda env: env.messages.append(Message("user", "sneaked in")),
        "use await env.append",
    ),
    "shrinks by itself": (lambda env: env.messages.pop(), "use await env.append"),
    "replaces the list": (lambda env: setattr(env, "messages", list(env.messages)), "replaced"),
    "holds no message": (
        lambda env: env.messages.__setitem__(0, {"role": "user"}),
        "is no Message",
    ),
    "holds an unknown role": (
        lambda env: env.messages.__setitem__(0, Message("robot", "beep")),  # type: ignore[arg-type]  # the fault
        "is no Message",
    ),
    "offers no spec": (_set("tools", ["look"]), "ToolSpecs with distinct names"),
    "offers two of one name": (
        _set("tools", [ToolSpec("look", "", {}), ToolSpec("look", "", {})]),
        "ToolSpecs with distinct names",
    ),
    "takes an undotted key": (lambda env: env.metadata.update(mine=1), "has no dot"),
    "counts from zero": (_set("iteration", 0), "iteration"),
    "exits with no bool": (_set("should_exit", "yes"), "should_exit"),
}


@pytest.mark.parametrize("layer", [Before, After])
@pytest.mark.parametrize(("breaks", "clause"), CLAUSES.values(), ids=CLAUSES)
async def test_a_layer_that_breaks_a_clause_is_caught(
    layer: type[Before], breaks: Break, clause: str
) -> None:
    with pytest.raises(LintError, match=clause):
        await Agent().use(layer, breaks=breaks).run(say("hello")).start("hi")


async def test_a_layer_that_turns_the_iteration_back_is_caught() -> None:
    agent = Agent().use(Before, breaks=_set("iteration", 5)).use(After, breaks=_set("iteration", 4))

    with pytest.raises(LintError, match="iteration back"):
        await agent.run(say("hello")).start("hi")


async def test_a_system_message_behind_the_head_is_caught() -> None:
    with pytest.raises(LintError, match="behind the head"):
        await Agent().run(place_twice).start("hi")


def not_async(env: Env) -> None:
    """What somebody writes who forgets `async`."""


async def answers(env: Env) -> str:
    """What somebody writes who takes the answer for the function's result."""
    return "hello"


@pytest.mark.parametrize(
    ("completion", "clause"), [(not_async, "is not async"), (answers, "the env is the answer")]
)
async def test_a_completion_that_is_no_async_procedure_is_caught(
    completion: Callable[[Env], Awaitable[None]], clause: str
) -> None:
    with pytest.raises(LintError, match=clause):
        await Agent().run(completion).start("hi")


async def test_what_a_layer_puts_right_before_it_passes_on_is_nobodys_business() -> None:
    class Borrow:
        def __init__(self, app: App[Env]) -> None:
            self._app = app

        async def __call__(self, env: Env) -> None:
            env.messages.append(Message("user", "for a moment"))
            env.messages.pop()
            env.metadata["borrow.times"] = 1
            await self._app(env)

    env = await Agent().use(Borrow).run(say("hello")).start("hi")

    assert len(env.messages) == 2


async def test_every_layer_that_ships_keeps_the_contract() -> None:
    model = Scripted([Reply(calls=[ScriptedCall("read", {"path": "a"})]), "It says hello."])
    agent = default_agent(
        thread=Thread.in_memory(),
        instructions="Be brief.",
        max_turns=5,
        tools=[read],
        sandbox=VirtualSandbox({"a": b"hello"}),
        completion=model,
    )

    env = await agent.start("what does it say?", metadata={"session_id": "a/b"})

    assert env.messages[-1].text == "It says hello."


async def test_lint_is_for_tests_and_costs_a_user_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LINT_VARIABLE)
    breaks, _ = CLAUSES["takes an undotted key"]

    env = await Agent().use(Before, breaks=breaks).run(say("hello")).start("hi")

    assert env.metadata["mine"] == 1
