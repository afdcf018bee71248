"""One prompt's turn while it runs: how it is stopped, and when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeAlias

from treadle.turn.env import Env

StopCause: TypeAlias = Literal["cancelled", "closed", "interrupted"]

# A stopped turn gets this long to end before it is told again: code that swallowed one
# cancellation seldom swallows the next.
ESCALATE_SECONDS = 0.5

# A stop is answered after this long at the latest, whatever the turn does.
STOP_SECONDS = 3.0


class TurnInFlight:
    """The turn at the head of a session's lane.

    It may be stopped from the moment it exists: before its model is called, while it runs,
    twice, or late.
    """

    def __init__(self) -> None:
        self.cause: StopCause | None = None
        self.env: Env | None = None
        self.number: int | None = None
        self._task: asyncio.Task[Env] | None = None
        self._ended = asyncio.Event()

    async def run(self, turn: Coroutine[Any, Any, Env]) -> Env:
        """Run the turn in a task of its own, so that a stop reaches it and nothing else.

        Raises:
            asyncio.CancelledError: it was stopped, maybe before it began; `cause` says why.
        """
        self._task = asyncio.create_task(turn)
        if self.cause is not None:
            self._task.cancel()
        return await self._task

    def end(self) -> None:
        """Say that the turn is over and its outcome known."""
        self._ended.set()

    async def stop(self, cause: StopCause) -> bool:
        """Stop the turn and wait, within a bound, until it has ended.

        Args:
            cause: becomes the turn's stop reason, unless an earlier stop gave another.

        Returns:
            Whether it has ended.
        """
        self.cause = self.cause or cause
        for _ in range(int(STOP_SECONDS / ESCALATE_SECONDS)):
            self._cancel()
            try:
                async with asyncio.timeout(ESCALATE_SECONDS):
                    await self._ended.wait()
                return True
            except TimeoutError:
                continue
        return False

    def _cancel(self) -> None:
        if self.env is not None:
            self.env.stop_reason = self.cause
        if self._task is not None and not self._task.done():
            self._task.cancel()
