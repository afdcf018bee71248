"""A daemon that is killed at a moment that was chosen before, and whatever was read until then."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from support.daemon import Daemon, frame

Clock: TypeAlias = Literal[
    "notifications", "bytes read", "bytes sent", "model requests", "milliseconds", "nothing"
]


@dataclass(frozen=True)
class Kill:
    """SIGKILL once `count` of what the clock counts have passed."""

    clock: Clock
    count: int = 0


# Beyond all that passes in one life: some of these kills come when everything has been said.
_RANGES: dict[Clock, int] = {
    "bytes read": 16_000,
    "bytes sent": 2_200,
    "model requests": 20,
    "milliseconds": 160,
}


def any_kill(chance: random.Random) -> Kill:
    """Choose a moment."""
    clock = chance.choice(list(_RANGES))
    return Kill(clock, chance.randint(1, _RANGES[clock]))


class Mortal(Daemon):
    """A client of a daemon that may be killed at any byte.

    Attributes:
        was_killed: the moment has come.
        sent: method and params of every request, by its id.
    """

    def __init__(self, process: Any) -> None:
        super().__init__(process)
        self.was_killed = False
        self.sent: dict[Any, tuple[str, Any]] = {}
        self._kill = Kill("nothing")
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None
        self._count_bytes(process.stdout)

    def arm(self, kill: Kill) -> None:
        """Begin to count."""
        self._kill, self._left = kill, kill.count
        if kill.clock == "milliseconds":
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(kill.count / 1000, self._die)

    def passed(self, clock: Clock, count: int = 1) -> None:
        """Count something that has passed."""
        if clock != self._kill.clock or self.was_killed:
            return
        self._left -= count
        if self._left <= 0:
            self._die()

    def ask(self, method: str, params: object = None) -> asyncio.Future[Any]:
        """Send a request, or fail at once when the daemon is dead."""
        if self.was_killed:
            raise EOFError("the daemon was killed")
        self.sent[self._last_id + 1] = (method, params)
        return super().ask(method, params)

    def send(self, message: object) -> None:
        """Send one message, or the part of it that is sent before the moment comes."""
        data = frame(message)
        if self._kill.clock == "bytes sent" and not self.was_killed:
            data = data[: self._left]
        self.stdin.write(data)
        self.passed("bytes sent", len(data))

    async def kill(self) -> None:
        """End the process, and read what it had still written."""
        if self._timer is not None:
            self._timer.cancel()
        await super().kill()

    def _die(self) -> None:
        self.was_killed = True
        self.process.kill()

    def _count_bytes(self, stdout: asyncio.StreamReader) -> None:
        feed = stdout.feed_data

        def counted(data: bytes) -> None:
            feed(data)
            self.passed("bytes read", len(data))

        stdout.feed_data = counted  # type: ignore[assignment,method-assign]  # a reader has no other hook

    def _take(self, message: dict[str, Any]) -> None:
        super()._take(message)
        if "method" in message:
            self.passed("notifications")
