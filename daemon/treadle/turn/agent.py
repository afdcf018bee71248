"""An agent: a stack of layers around one completion, and `start`, which runs one turn.

Owns the env's birth and the turn's end. Works without the daemon.
"""

from __future__ import annotations

import os
import time
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
        self._has_completion = False

    def use(self, layer: LayerFactory[Env], **options: Any) -> Self:
        """Add a layer inside those already there; it is built as `layer(app, **options)`."""
        self._stack.use(layer, **options)
        return self

    def run(self, completion: App[Env]) -> Self:
        """Set the completion at the bottom of the stack."""
        self._stack.run(completion)
        self._has_completion = True
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
            ConfigurationError: no completion is set, or there is nothing to say.
            TreadleError: whatever ended the turn: the model's error, a thread's.
            asyncio.CancelledError: the turn was cancelled; what had been said is kept.
        """
        if not self._has_completion:
            raise ConfigurationError("this agent has no completion: call run(completion) first")
        env = Env(self._events, metadata={"started_at": now(), **(metadata or {})})
        for message in _messages(prompt):
            await env.append(message)
        return await self._run_turn(env)

    async def _run_turn(self, env: Env) -> Env:
        began = time.monotonic()
        app = self._stack.build(Lint if os.environ.get(LINT_VARIABLE) else None)
        env.emit("turn", TurnStarted(tuple(env.messages)))
        error: BaseException | None = None
        try:
            await app(env)
        except BaseException as caught:
            error = caught
            raise
        finally:
            env.metadata["timings"] = {"turn_seconds": time.monotonic() - began}
            env.emit("done", turn_done(env, error))
        return env


def _messages(prompt: str | Message | Sequence[Message]) -> Sequence[Message]:
    """Return the prompt as messages, whatever form it came in.

    Raises:
        ConfigurationError: it says nothing.
    """
    if isinstance(prompt, str):
        prompt = Message("user", prompt)
    messages = [prompt] if isinstance(prompt, Message) else list(prompt)
    if not any(message.content or message.tool_calls for message in messages):
        raise ConfigurationError("the prompt is empty; say something")
    return messages
