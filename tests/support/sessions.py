"""Sessions of a runtime in the test's own loop: prompts, and events as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from support.waiting import PATIENCE_SECONDS, Waitable
from treadle.agents.options import SessionOptions
from treadle.models.completion import Completion
from treadle.runtime.outbox import Pair, Said, SessionEvent, StateChanged, TurnEnded
from treadle.runtime.prompt import Outcome, Prompt
from treadle.runtime.runtime import Runtime
from treadle.thread.message import Message
from treadle.turn.env import Env

Answering: TypeAlias = Callable[[Completion], None]
"""Makes a completion every session's model."""

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


async def said(runtime: Runtime, pair: Pair = PAIR) -> list[Message]:
    """Return the first thousand messages of a session's thread."""
    page = (await runtime.read(pair)).page(0, 1000)
    return [placed.message for placed in page.messages]


class EventLog(list[SessionEvent]):
    """The numbered events of a session; what was said is none, and its number is another's."""

    def take(self, event: SessionEvent) -> None:
        """Be told an event."""
        if not isinstance(event.payload, Said):
            self.append(event)


class Watched(Waitable):
    """A session's events as they come, which a test may wait for."""

    def __init__(self, runtime: Runtime, pair: Pair = PAIR) -> None:
        super().__init__()
        self.events = EventLog()
        runtime.session(pair).outbox.watch(self.take)

    def take(self, event: SessionEvent) -> None:
        """Be told an event."""
        self.events.take(event)
        self.changed()

    @property
    def done(self) -> list[TurnEnded]:
        """The ends of turns so far."""
        return [one.payload for one in self.events if isinstance(one.payload, TurnEnded)]

    @property
    def states(self) -> list[StateChanged]:
        """The states so far."""
        return [one.payload for one in self.events if isinstance(one.payload, StateChanged)]


class Held:
    """A completion that waits for `open` each time it is asked, and counts."""

    def __init__(self) -> None:
        self.calls = 0
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, env: Env) -> None:
        self.calls += 1
        self.reached.set()
        await self.open.wait()
        await env.append(Message("assistant", f"Answer {self.calls}"))
