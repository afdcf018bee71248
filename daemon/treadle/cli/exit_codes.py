"""What the command line's exit codes mean; a script acts on them, so they never change."""

from __future__ import annotations

OK = 0
FAILED = 1  # the request was answered with an error, which standard error tells
USAGE = 2  # the command cannot be understood
ENDED_EARLY = 3  # the turn stopped at a limit, or the model refused: there is an answer, in part
GONE = 69  # the shared daemon has ended while it was spoken with; EX_UNAVAILABLE of sysexits.h
INTERRUPTED = 130  # Ctrl-C; what had been said is kept

_BY_STOP_REASON = {
    "end_turn": OK,
    "cancelled": INTERRUPTED,
    "closed": INTERRUPTED,
    "interrupted": INTERRUPTED,
}


def of_stop_reason(stop_reason: str) -> int:
    """Return the exit code of a turn that ended with `stop_reason`."""
    return _BY_STOP_REASON.get(stop_reason, ENDED_EARLY)
