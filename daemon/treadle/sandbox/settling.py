"""Blocking work in a thread, given up and waited for when whoever asked for it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# How long a cancelled call waits for its thread, so that whoever undoes it sees what it did. A
# disk that does not answer for longer is not waited for.
_SETTLE_SECONDS = 5.0


async def settled(work: Callable[[Callable[[], bool]], T]) -> T:
    """Do blocking work in a thread.

    Contract: when this is cancelled, the work is told, and has ended once this raises.

    Args:
        work: what to do; it gets what tells whether it is given up, and asks it often.
    """
    given_up = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, given_up.is_set))
    task.add_done_callback(_hear)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait([task], timeout=_SETTLE_SECONDS)
        raise


def _hear(task: asyncio.Task[T]) -> None:
    """Take note of an error, also when nobody asks for it any more: asyncio would print it."""
    if not task.cancelled():
        task.exception()
