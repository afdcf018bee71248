"""`$/logTrace`: what we did, for a client that wants to see it; never what was said.

Owns how much a client is told. Refuses to know who answers requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from treadle.protocol.lifecycle import LogTraceParams, TraceValue


class Trace:
    """One client's trace.

    Args:
        tell: sends it one word.
        pending_bytes: how much of what was sent it has not taken.
    """

    def __init__(
        self, tell: Callable[[LogTraceParams], None], pending_bytes: Callable[[], int]
    ) -> None:
        self._value = "off"
        self._tell = tell
        self._pending_bytes = pending_bytes

    def begin(self, value: object) -> None:
        """Tell as much as `value`, a `TraceValue`, says; anything else is none, and so `off`."""
        self._value = value if isinstance(value, str) and value in get_args(TraceValue) else "off"

    def answered(self, method: str, outcome: str, seconds: float) -> None:
        """Tell that a request was answered."""
        if self._value == "off":
            return
        verbose = f"{self._pending_bytes()} bytes wait to be read"
        self._tell(
            LogTraceParams(
                message=f"{method}: {outcome} after {seconds * 1000:.0f} ms",
                verbose=verbose if self._value == "verbose" else None,
            )
        )
