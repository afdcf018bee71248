"""Whose calls a server is answering now: whoever it asks something is one of them.

Owns the deadline of each call, which stands still while the person is asked on its behalf, and that
nobody is asked for longer than a call waits. Refuses to know what is called, and how a person
answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from treadle.tools.tool import ToolContext

ResultT = TypeVar("ResultT")


class NobodyWaits(Exception):
    """The calls are over on whose behalf something was done."""


@dataclass(slots=True, eq=False)
class _Caller:
    context: ToolContext
    deadline: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    left_seconds: float = 0.0
    pauses: int = 0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class Callers:
    """The calls in flight of one server."""

    def __init__(self) -> None:
        self._in_flight: list[_Caller] = []

    @asynccontextmanager
    async def call(self, context: ToolContext, seconds: float) -> AsyncIterator[None]:
        """Be in flight for as long as the block takes.

        Args:
            context: whose call it is.
            seconds: how long that may be, without what a person takes to answer.

        Raises:
            TimeoutError: the time is up.
        """
        caller = _Caller(context, left_seconds=seconds)
        self._in_flight.append(caller)
        try:
            async with caller.deadline as deadline:
                deadline.reschedule(_now() + seconds)
                yield
        finally:
            self._in_flight.remove(caller)
            caller.is_over.set()

    def only(self) -> ToolContext | None:
        """Return whose calls are in flight; None where there are none, or those of several
        sessions: then nobody can tell who is meant.
        """
        found = {id(each.context.session): each.context for each in self._in_flight}
        return next(iter(found.values())) if len(found) == 1 else None

    async def on_behalf(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do something for the calls in flight, for as long as one of them is.

        Raises:
            NobodyWaits: none is any more; the work was cancelled.
        """
        callers = tuple(self._in_flight)
        working = asyncio.create_task(work)
        ending = asyncio.create_task(_wait_over(callers))
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        if working.cancelled():
            raise NobodyWaits
        return working.result()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no call's time run while the block does: a person is being asked."""
        paused = list(self._in_flight)
        for caller in paused:
            caller.pauses += 1
            when = caller.deadline.when()
            if caller.pauses == 1 and when is not None:
                caller.left_seconds = when - _now()
                caller.deadline.reschedule(None)
        try:
            yield
        finally:
            for caller in paused:
                caller.pauses -= 1
                if (
                    not caller.pauses
                    and not caller.deadline.expired()
                    and caller in self._in_flight
                ):
                    caller.deadline.reschedule(_now() + caller.left_seconds)


async def _wait_over(callers: tuple[_Caller, ...]) -> None:
    for caller in callers:
        await caller.is_over.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()
