"""The guard of the loop: a turn makes at most so many model calls.

Belongs inside the loop, and inside Steering, so that what is said to a turn at its limit is kept.
"""

from __future__ import annotations

from treadle.errors import ConfigurationError
from treadle.stack.stack import App
from treadle.turn.env import Env

# A library agent's bound; a prompt through the daemon is bounded by its `maxTurns`, 25 by default.
DEFAULT_LIMIT = 100


class MaxIterations:
    """Ends the turn with the stop reason `max_turns` instead of a pass beyond `limit`.

    It writes no message: nobody is made to say what they did not say.
    """

    def __init__(self, app: App[Env], *, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise ConfigurationError(f"MaxIterations needs a limit of at least 1, not {limit}")
        self._app = app
        self._limit = limit

    async def __call__(self, env: Env) -> None:
        """Pass the env inwards, or end the turn when the limit is used up."""
        if env.iteration > self._limit:
            env.stop_reason = "max_turns"
            env.should_exit = True
            return
        await self._app(env)
