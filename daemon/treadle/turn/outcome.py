"""How a turn ended, read from its env."""

from __future__ import annotations

import asyncio

from treadle.thread.records import StopReason
from treadle.turn.env import Env
from treadle.turn.events import TurnDone

# Why a turn was cancelled, where somebody other than the client did it; set before the cancel.
_CANCELLED_BY_US: frozenset[StopReason] = frozenset({"closed", "interrupted"})


def turn_done(env: Env, error: BaseException | None = None) -> TurnDone:
    """Sum up a turn.

    A cancel that comes after the turn's good end was recorded changes nothing of it.

    Args:
        env: the turn's env, however it ended.
        error: what is about to be raised, if anything.
    """
    if isinstance(error, asyncio.CancelledError) and env.done and env.done.error is None:
        return env.done
    return TurnDone(
        stop_reason=_stop_reason(env, error),
        text=env.answer,
        usage=env.spent + env.beside,
        # A call that failed said nothing; a completion of one's own may announce nothing.
        steps=max(env.model_calls, env.answers),
        error=error,
    )


def _stop_reason(env: Env, error: BaseException | None) -> StopReason:
    if isinstance(error, asyncio.CancelledError):
        return env.stop_reason if env.stop_reason in _CANCELLED_BY_US else "cancelled"
    if error is not None:
        return "error"
    return env.stop_reason or "end_turn"
