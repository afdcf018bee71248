"""When a server that failed may be started again: later each time, and after a few times not soon.

Owns that rule for one server, whoever uses it: sessions that have the same server share one, so
that a server that cannot run is not started once for each of them. Refuses to know why it failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# A slip that a person mends at once is not waited for; what keeps failing waits up to a minute.
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0

# So many failures in a row, and it is not started again by itself: only a turn that needs it
# tries, once in the longest wait.
MOST_IN_A_ROW = 5

# A server that ran for so long is sound, whatever ended it.
SOUND_SECONDS = 60.0


class Breaker:
    """The failures of one server in a row.

    Args:
        clock: tells the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._failed_at = float("-inf")
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it failed too often to be started again by itself."""
        return self._failures >= MOST_IN_A_ROW

    @property
    def wait_seconds(self) -> float:
        """How long from now nobody is to start it; 0 where it may be started."""
        return max(0.0, self._until - self._clock())

    def failed(self, ran_seconds: float = 0.0) -> None:
        """Count a failure.

        Args:
            ran_seconds: how long the server had been ready.
        """
        self._failures = 1 if ran_seconds >= SOUND_SECONDS else self._failures + 1
        wait = min(FIRST_WAIT_SECONDS * 2 ** (self._failures - 1), LONGEST_WAIT_SECONDS)
        if self.is_open:
            wait = LONGEST_WAIT_SECONDS
        self._failed_at = self._clock()
        self._until = self._failed_at + wait

    def answered(self, since: float) -> None:
        """Forget the failures: it has done what it is for.

        Args:
            since: when the server that answered was ready, by the clock. What runs well in one
                session tells nothing of what failed in another meanwhile.
        """
        if since >= self._failed_at:
            self._failures, self._until = 0, 0.0
