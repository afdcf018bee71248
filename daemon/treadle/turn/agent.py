"""An agent: a stack of layers around one completion, and `start`, which runs one turn.

Owns the env's birth and the turn's end. Works without the daemon.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

from treadle.errors import ConfigurationError
from treadle.stack.events import Subscriber
from treadle.stack.stack import App, LayerFactory, Stack
from treadle.thread.message import Message, now
from treadle.turn.env import Env
from treadle.turn.events import TurnStarted, turn_events
from treadle.turn.lint import Lint
from treadle.turn.outcome import turn_done

# Set by the test-suite, so that every stack of every process under test is linted.
LINT_VARIABLE = "TREADLE_LINT"


class Agent:
    """Layers around a completion.

    >>> agent = (
    ...     Agent()
    ...     .use(SessionLog, path="chat.jsonl")
    ...     .use(ToolResultLoop)
    ...     .run(completion)
    ... )
    >>> env = await agent.start("My name is Mac.")
    >>> env.messages[-1].text
    """

    def __init__(self) -> None:
        self._stack: Stack[Env] = Stack()
        self._events = turn_events()

    def use(self, layer: LayerFactory[Env], **options: Any) -> Self:
        """Add a layer inside those already there.

        Args:
            layer: called as `layer(app, **options)` for each turn: a class with one
                `async __call__(env)`, usually, which awaits `app(env)`.
            options: whatever the layer takes.
        """
        self._stack.use(layer, **options)
        return self

    def run(self, completion: App[Env]) -> Self:
        """Set the completion at the bottom of the stack, in place of an earlier one."""
        self._stack.run(completion)
        return self

    def on(self, name: str, fn: Subscriber) -> Self:
        """Subscribe `fn(env, payload)` to an event of `treadle.turn.events`.

        Raises:
            ConfigurationError: an unknown event, or a coroutine function.
        """
        self._events.on(name, fn)
        return self

    async def start(
        self,
        prompt: str | Message | Sequence[Message],
        *,
        metadata: dict[str, Any] | None = None,
    ) -> Env:
        """Run one turn.

        Args:
            prompt: text, a message, or several messages.
            metadata: what the env's metadata holds from the start, besides `started_at`.

        Returns:
            The turn's env; its last assistant message is the answer.

        Raises:
            ConfigurationError: no completion is set, a layer refuses its options, or the prompt
                cannot be one.
            TreadleError: whatever ended the turn: the model's error, a thread's.
            asyncio.CancelledError: the turn was cancelled; what had been said is kept.
        """
        app = self._stack.build(Lint if os.environ.get(LINT_VARIABLE) else None)
        env = Env(self._events, prompt_messages(prompt), {"started_at": now(), **(metadata or {})})
        error: BaseException | None = None
        env.emit("turn", TurnStarted(tuple(env.messages)))
        try:
            with env.timed("turn_seconds"):
                await app(env)
        except BaseException as caught:
            error = caught
            raise
        finally:
            env.emit("done", turn_done(env, error))
        return env


def prompt_messages(prompt: str | Message | Sequence[Message]) -> list[Message]:
    """Return the prompt as messages, whatever form it came in.

    Raises:
        ConfigurationError: it says nothing, or holds what is no part of a prompt.
    """
    if isinstance(prompt, str):
        prompt = Message("user", prompt)
    messages = [prompt] if isinstance(prompt, Message) else list(prompt)
    for message in messages:
        if not isinstance(message, Message):
            raise ConfigurationError(f"a prompt is text or messages, not {message!r}")
        if message.role == "system":
            raise ConfigurationError("instructions belong in SystemPrompt, not in a prompt")
    if not any(message.tool_calls or str(message.content or "").strip() for message in messages):
        raise ConfigurationError("the prompt is empty; say something")
    return messages
