"""A stack: layers around an app, whatever flows through them."""

from __future__ import annotations

from functools import partial

import pytest

from treadle.errors import ConfigurationError
from treadle.stack.stack import App, Stack

Trace = list[str]


class Note:
    """Writes down when the env passes."""

    def __init__(self, app: App[Trace], *, name: str) -> None:
        self._app = app
        self._name = name

    async def __call__(self, env: Trace) -> None:
        env.append(f"{self._name} in")
        await self._app(env)
        env.append(f"{self._name} out")


async def bottom(env: Trace) -> None:
    env.append("app")


async def test_layers_are_passed_outermost_first_and_back_in_reverse() -> None:
    app = Stack[Trace]().use(Note, name="outer").use(Note, name="inner").run(bottom).build()

    env: Trace = []
    await app(env)

    assert env == ["outer in", "inner in", "app", "inner out", "outer out"]


async def test_run_may_come_before_use_and_the_last_one_counts() -> None:
    async def other(env: Trace) -> None:
        env.append("other")

    env: Trace = []
    await Stack[Trace]().run(bottom).use(Note, name="only").run(other).build()(env)

    assert env == ["only in", "other", "only out"]


async def test_an_app_that_was_built_can_be_called_again_and_grows_no_more() -> None:
    stack = Stack[Trace]().run(bottom)
    app = stack.build()
    stack.use(Note, name="late")

    env: Trace = []
    await app(env)
    await app(env)

    assert env == ["app", "app"]


async def test_what_is_put_between_stands_around_the_app_and_every_layer() -> None:
    stack = Stack[Trace]().use(Note, name="layer").run(bottom)

    env: Trace = []
    await stack.build(partial(Note, name="-"))(env)

    assert env == ["- in", "layer in", "- in", "app", "- out", "layer out", "- out"]


def test_a_stack_with_nothing_at_the_bottom_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="call run"):
        Stack[Trace]().use(Note, name="alone").build()
