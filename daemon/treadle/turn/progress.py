"""What a running call tells of how far it is, at a pace that every watcher can follow.

Owns the pace. Refuses to know what runs, and who watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from treadle.secrets import known
from treadle.thread.message import ToolCall, clean
from treadle.turn.events import ToolProgressed

# Ten a second look alive to a person, and are no burden to whoever shows or carries them.
PACE_SECONDS = 0.1

# A line or two; more belongs into the call's result.
MESSAGE_CHARACTERS = 500

Tell: TypeAlias = Callable[[ToolProgressed], None]


class Progress:
    """One call's progress: the first word at once, then at most one in each interval, the newest.

    Args:
        call: whose.
        tell: tells the watchers.
    """

    def __init__(self, call: ToolCall, tell: Tell) -> None:
        self._call = call
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._waiting: ToolProgressed | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._has_ended = False

    def __call__(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Say how far the call is; from any thread."""
        # Redacted before it is cut: half a secret is not recognised any more.
        text = known().redact(clean(message))[:MESSAGE_CHARACTERS]
        told = ToolProgressed(self._call, text, done, total)
        if _is_here(self._loop):
            self._take(told)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, told)

    def end(self) -> None:
        """Tell the last word, if it still waits; nothing is told after this."""
        pause = self._pause
        self._release()
        self._has_ended = True
        for timer in (pause, self._pause):
            if timer is not None:
                timer.cancel()

    def _take(self, told: ToolProgressed) -> None:
        if self._has_ended:
            return
        self._waiting = told
        if self._pause is None:
            self._release()

    def _release(self) -> None:
        """Tell what waits, and keep silent for a while; where nothing waits, be ready again."""
        told, self._waiting, self._pause = self._waiting, None, None
        if told is not None and not self._has_ended:
            self._pause = self._loop.call_later(PACE_SECONDS, self._release)
            self._tell(told)


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller runs on the loop, and not in a thread beside it."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
