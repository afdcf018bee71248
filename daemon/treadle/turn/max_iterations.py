"""The guard of the loop: a turn makes at most so many model calls.

Belongs inside the loop, and inside Steering, so that what is said to a turn at its limit is kept.
"""

from __future__ import annotations

from treadle.errors import ConfigurationError
from treadle.stack.stack import App
from treadle.turn.env import Env

# A library agent's bound; a prompt through the daemon is bounded by its `maxTurns`, 25 by default.
DEFAULT_LIMIT = 100


class ModelCalls:
    """The model calls that a turn may still make.

    Args:
        limit: how many.
        within: those of the turn that this one is a task of; each call counts there too, and the
            last one there is left to that turn, which has yet to read what its task says.
    """

    def __init__(self, limit: int, within: ModelCalls | None = None) -> None:
        self.left = limit
        self._within = within

    def take(self) -> bool:
        """Count a call that is about to be made; return whether it may be."""
        if self.left < 1 or (self._within is not None and self._within.left < 2):
            return False
        self.left -= 1
        return self._within is None or self._within.take()


class MaxIterations:
    """Ends the turn with the stop reason `max_turns` instead of a pass beyond `limit`.

    It writes no message: nobody is made to say what they did not say.

    Args:
        app: the rest of the stack.
        limit: how many model calls.
        calls: a count that others take from too; each pass is one.
    """

    def __init__(
        self, app: App[Env], *, limit: int = DEFAULT_LIMIT, calls: ModelCalls | None = None
    ) -> None:
        if limit < 1:
            raise ConfigurationError(f"MaxIterations needs a limit of at least 1, not {limit}")
        self._app = app
        self._limit = limit
        self._calls = calls

    async def __call__(self, env: Env) -> None:
        """Pass the env inwards, or end the turn when the limit is used up."""
        if env.iteration > self._limit or (self._calls is not None and not self._calls.take()):
            env.stop_reason = "max_turns"
            env.should_exit = True
            return
        await self._app(env)
