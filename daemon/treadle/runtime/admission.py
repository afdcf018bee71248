"""What the daemon takes on: bounds on prompts that wait, for each session and for all of them.

Owns when a prompt is refused for that, and when to come back. Refuses to know what a prompt says,
and who runs next: that is the lanes' and the slots' business. What ends work is never refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from treadle.agents.config import SessionSettings
from treadle.errors import Overloaded
from treadle.process.memory import resident_bytes
from treadle.thread.message import Message

# The daemon's memory is looked at this often: a look costs some ten microseconds.
LOOK_SECONDS = 0.5

# How far the last turns' lengths count: about ten of them.
SMOOTHING = 0.2

# Nobody is told to come back sooner, or later; what is said is a guess.
LEAST_RETRY_SECONDS = 1.0
MOST_RETRY_SECONDS = 60.0

# How long a turn is taken to be before one has ended.
FIRST_TURN_SECONDS = 5.0

# What a message costs beside its text.
MESSAGE_BYTES = 500


@dataclass(frozen=True, slots=True)
class Load:
    """What one prompt weighs while it waits.

    Args:
        size_bytes: about how much memory it takes.
    """

    size_bytes: int


class Admission:
    """The daemon's bounds on what waits.

    Args:
        relieve: lets idle sessions go where memory is short; returns whether there were any.
    """

    def __init__(self, relieve: Callable[[], bool] = lambda: False) -> None:
        self.settings = SessionSettings()
        self._relieve = relieve
        self._prompts = 0
        self._size_bytes = 0
        self._turn_seconds = FIRST_TURN_SECONDS
        self._looked_at = float("-inf")
        self._is_full = False

    @property
    def prompts(self) -> int:
        """How many turns run or wait in all sessions."""
        return self._prompts

    def take(self, messages: Sequence[Message], waiting: int) -> Load:
        """Take a prompt on.

        Args:
            messages: what it says.
            waiting: how many of its session run or wait already.

        Returns:
            What to give back when it has ended.

        Raises:
            Overloaded: too much waits; `retryAfterSeconds` says when that may be over.
        """
        bounds, load = self.settings, Load(_size_bytes(messages))
        if waiting > bounds.queued_prompts:
            raise self._overloaded(f"{waiting} prompts wait in this session", waiting)
        if self._prompts >= bounds.queued_prompts_overall:
            raise self._overloaded(f"{self._prompts} prompts wait in all sessions", self._prompts)
        most_bytes = bounds.queued_megabytes << 20
        if self._prompts and self._size_bytes + load.size_bytes > most_bytes:
            told = f"the prompts that wait hold {self._size_bytes >> 20} MiB"
            raise self._overloaded(told, self._prompts)
        if self._prompts and self._is_memory_short():
            told = f"the daemon holds more than {bounds.memory_megabytes} MiB"
            raise self._overloaded(told, self._prompts)
        self._prompts += 1
        self._size_bytes += load.size_bytes
        return load

    def give_back(self, load: Load) -> None:
        """Forget a prompt whose turn has ended, or that was withdrawn."""
        self._prompts -= 1
        self._size_bytes -= load.size_bytes

    def note_turn(self, seconds: float) -> None:
        """Learn how long turns take."""
        self._turn_seconds += SMOOTHING * (seconds - self._turn_seconds)

    def _is_memory_short(self) -> bool:
        """Whether the process is above its ceiling although idle sessions were let go."""
        if not self.settings.memory_megabytes:
            return False
        now = asyncio.get_running_loop().time()
        if now - self._looked_at > LOOK_SECONDS:
            self._looked_at = now
            self._is_full = resident_bytes() > self.settings.memory_megabytes << 20
            if self._is_full:
                self._relieve()
        return self._is_full

    def _overloaded(self, told: str, ahead: int) -> Overloaded:
        seconds = ahead * self._turn_seconds / self.settings.turns_in_flight
        seconds = min(max(seconds, LEAST_RETRY_SECONDS), MOST_RETRY_SECONDS)
        return Overloaded(
            f"{told}; try again in {seconds:.0f} s", retry_after_seconds=round(seconds, 1)
        )


def _size_bytes(messages: Sequence[Message]) -> int:
    return sum(len(message.text) + MESSAGE_BYTES for message in messages)
