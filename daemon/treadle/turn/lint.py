"""The contract of a turn's layers, as code: tests put it around every layer of every stack.

Each clause stands directly above the check that enforces it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from treadle.models.completion import ToolSpec
from treadle.stack.stack import App
from treadle.thread.message import ROLES, Message
from treadle.turn.env import Env

_OWN_METADATA = frozenset({"asked", "key", "session_id", "turn", "started_at", "timings"})


class LintError(AssertionError):
    """A layer broke the contract; the message quotes the clause."""


class Lint:
    """Checks the env on the way in and on the way out of the app it wraps."""

    def __init__(self, app: App[Env]) -> None:
        self._app = app

    async def __call__(self, env: Env) -> None:
        """Pass the env inwards between two inspections."""
        _inspect(env)
        messages, iteration = env.messages, env.iteration

        # Layers and completions are async callables that return nothing: the env is the answer.
        running: Awaitable[object] = self._app(env)
        _require(inspect.isawaitable(running), f"{self._app!r} is not async")
        answer = await running
        _require(answer is None, f"{self._app!r} returned {answer!r}; the env is the answer")

        # `messages` is one list object for the whole turn.
        _require(env.messages is messages, "a layer replaced the list env.messages")

        # `iteration` never falls.
        _require(env.iteration >= iteration, "a layer turned env.iteration back")

        _inspect(env)


def _inspect(env: Env) -> None:
    # Messages are added with `await env.append(message)`, so that what is said is on disk.
    _require(
        len(env.messages) == env.placed,
        "a layer changed env.messages itself; use await env.append(message)",
    )

    # Every member is a Message with a known role.
    for message in env.messages:
        _require(
            isinstance(message, Message) and message.role in ROLES,
            f"{message!r} in env.messages is no Message",
        )

    # A system message stands at the head or nowhere.
    _require(
        all(message.role != "system" for message in env.messages[1:]),
        "a system message stands behind the head of env.messages",
    )

    # `tools` holds ToolSpecs with distinct names.
    _require(
        all(isinstance(spec, ToolSpec) for spec in env.tools)
        and len({spec.name for spec in env.tools}) == len(env.tools),
        "env.tools holds something other than ToolSpecs with distinct names",
    )

    # Extensions' keys in `metadata` contain a dot; undotted ones are ours.
    _require(
        all("." in key for key in env.metadata.keys() - _OWN_METADATA),
        "a key of env.metadata has no dot; undotted keys are Treadle's own",
    )

    # `iteration` counts from 1 and `should_exit` is a bool.
    _require(
        env.iteration >= 1 and isinstance(env.should_exit, bool),
        "env.iteration or env.should_exit holds something else than a count and a bool",
    )


def _require(holds: bool, clause: str) -> None:
    if not holds:
        raise LintError(clause)
