"""A summariser that has failed rests: a turn does not wait again for what does not answer.

Owns after which failures, and for how long. Refuses to know who writes summaries and when one is
due.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from treadle.errors import (
    ModelAuth,
    ModelRateLimited,
    ModelStreamBroken,
    ModelUnreachable,
    TreadleError,
)

# What may pass has as a rule passed by then; until it has, each turn would wait for all the tries.
REST_SECONDS = 60.0

# A key that is refused and a quota that is used up stay so until a person does something.
LONG_REST_SECONDS = 900.0

# An endpoint may ask for days; a conversation that is compacted seldom should not lose them all.
MOST_REST_SECONDS = 900.0


class Resting(TreadleError):
    """It is not asked now; the message says why, and when it is again."""


class Rest:
    """Whether a summariser rests; keep it as long as that.

    Args:
        clock: tells the time in seconds, from wherever on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self._why = ""

    def require_none(self) -> None:
        """Refuse to ask it while it rests.

        Raises:
            Resting: it does.
        """
        left = self._until - self._clock() if self._why else 0.0
        if left > 0:
            raise Resting(
                f"not asked, for it failed a short while ago ({self._why}); it is asked again in "
                f"{max(1, round(left))} s, or at once by session/compact"
            )

    def begin(self, error: TreadleError) -> None:
        """Have it rest after a failure that would be met again at once."""
        if seconds := rest_seconds(error):
            self._until, self._why = self._clock() + seconds, error.message

    def end(self) -> None:
        """Have it rest no more: it has answered."""
        self._why = ""


def rest_seconds(error: TreadleError) -> float:
    """Return how long nobody is asked after a failure; 0 where asking again may be right at once.

    What was refused or cannot be taken because of what was asked is no reason to rest.
    """
    if isinstance(error, ModelAuth):
        return LONG_REST_SECONDS
    if isinstance(error, ModelRateLimited):
        usual = REST_SECONDS if error.may_pass else LONG_REST_SECONDS
        return min(error.asked_seconds or usual, MOST_REST_SECONDS)
    if isinstance(error, ModelUnreachable | ModelStreamBroken):
        return min(error.asked_seconds or REST_SECONDS, MOST_REST_SECONDS)
    return 0.0
