"""A model call that failed before it said anything is made again, after a wait.

Belongs innermost, directly around the completion, so that what is tried again is one model call
and never a tool. Writes no message.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from treadle.errors import ConfigurationError, ModelError
from treadle.stack.stack import App
from treadle.turn.env import Env
from treadle.turn.events import Retrying

# Some twelve seconds of waiting in all, with the waits below: what lasts longer is told.
DEFAULT_MAX_RETRIES = 4

# An endpoint that asks for more is not waited for: a person would take us for dead.
MAX_RETRY_AFTER_SECONDS = 60.0

# The first wait where the endpoint names none; each one after it is twice as long.
FIRST_WAIT_SECONDS = 1.0

# No wait is longer: by then an endpoint is down, and a shorter look does not burden it.
MAX_WAIT_SECONDS = 30.0


class Retry:
    """Makes a model call again that failed in a way that may pass.

    Only while nothing of the answer was told or kept: what a person has read is not said twice.

    Args:
        app: the completion.
        max_retries: how often one model call is made again.
        sleep: waits so many seconds. Contract: lets a cancel through.
        chance: gives a number from 0 to 1, which spreads the waits of those that failed together.
    """

    def __init__(
        self,
        app: App[Env],
        *,
        max_retries: int = DEFAULT_MAX_RETRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if max_retries < 0:
            raise ConfigurationError(f"Retry needs max_retries of at least 0, not {max_retries}")
        self._app = app
        self._max_retries = max_retries
        self._sleep = sleep
        self._chance = chance

    async def __call__(self, env: Env) -> None:
        """Let the model answer, however often it takes.

        Raises:
            ModelError: the last one, or the first that no waiting helps.
        """
        calls, said = env.model_calls, (env.deltas, env.placed)
        attempt = 1
        while True:
            try:
                await self._app(env)
                break
            except ModelError as error:
                wait_seconds = self._wait_seconds(error, attempt)
                if wait_seconds is None or (env.deltas, env.placed) != said:
                    raise
                retrying = Retrying(attempt, error.reason, wait_seconds)
            env.emit("retrying", retrying)
            await self._sleep(wait_seconds)
            # It is the same call that is made again, also where a turn's calls are counted.
            env.model_calls = calls
            attempt += 1

    def _wait_seconds(self, error: ModelError, attempt: int) -> float | None:
        """Return how long to wait before the next attempt; None where there is to be none."""
        if attempt > self._max_retries or not error.may_pass:
            return None
        if asked := error.asked_seconds:
            return asked if asked <= MAX_RETRY_AFTER_SECONDS else None
        longest = min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), MAX_WAIT_SECONDS)
        # Half of it at least, so that an endpoint that is overloaded gets some rest from each.
        return longest * (0.5 + self._chance() / 2)
