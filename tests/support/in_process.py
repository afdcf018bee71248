"""Sessions of a runtime in the test's own process: prompts, and events as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from treadle.agents.options import SessionOptions
from treadle.models.completion import Completion
from treadle.runtime.outbox import Pair, SessionEvent, StateChanged, TurnEnded
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Outcome, Prompt
from treadle.thread.message import Message

Answering: TypeAlias = Callable[[Completion], None]
"""Makes a completion every session's model."""

# Far more than anything here takes on a busy machine; a test that waits this long has failed.
PATIENCE_SECONDS = 20.0

PAIR = Pair("assistant", "test")


def prompt(text: str, **fields: Any) -> Prompt:
    """Return a prompt that says `text`."""
    return Prompt([Message("user", text)], fields.pop("options", SessionOptions()), **fields)


def ask(runtime: Runtime, text: str, pair: Pair = PAIR, **fields: Any) -> asyncio.Task[Outcome]:
    """Prompt in a task of its own, as a handler does: session and prompt in one step."""

    async def handle() -> Outcome:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await runtime.session(pair).prompt(prompt(text, **fields))

    return asyncio.create_task(handle())


class Watched:
    """A session's events as they come, which a test may wait for."""

    def __init__(self, runtime: Runtime, pair: Pair = PAIR) -> None:
        self.events: list[SessionEvent] = []
        self._changed = asyncio.Event()
        runtime.session(pair).outbox.watch(self.take)

    def take(self, event: SessionEvent) -> None:
        """Be told an event."""
        self.events.append(event)
        self._changed.set()

    @property
    def done(self) -> list[TurnEnded]:
        """The ends of turns so far."""
        return [one.payload for one in self.events if isinstance(one.payload, TurnEnded)]

    @property
    def states(self) -> list[StateChanged]:
        """The states so far."""
        return [one.payload for one in self.events if isinstance(one.payload, StateChanged)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, within a bound, for events that make the condition true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
