"""What the command line's exit codes mean; a script acts on them, so they never change."""

from __future__ import annotations

OK = 0
FAILED = 1  # the request was answered with an error, which standard error tells
USAGE = 2  # the command cannot be understood
ENDED_EARLY = 3  # the turn stopped at a limit, or the model refused: there is an answer, in part
UNREACHABLE = 69  # no shared daemon can be used, or it ended meanwhile: EX_UNAVAILABLE of sysexits
TRY_LATER = 75  # the session or the daemon has too much to do now: EX_TEMPFAIL of sysexits
INTERRUPTED = 130  # Ctrl-C; what had been said is kept

_BY_STOP_REASON = {
    "end_turn": OK,
    "cancelled": INTERRUPTED,
    "closed": INTERRUPTED,
    "interrupted": INTERRUPTED,
}

_BY_ERROR = {
    "busy": TRY_LATER,
    "overloaded": TRY_LATER,
    "daemon_unreachable": UNREACHABLE,
    "daemon_failed": UNREACHABLE,
    "daemon_of_other_version": UNREACHABLE,
    "daemon_gone": UNREACHABLE,
    "shutting_down": UNREACHABLE,
    "unsafe_place": UNREACHABLE,
}


def of_stop_reason(stop_reason: str) -> int:
    """Return the exit code of a turn that ended with `stop_reason`."""
    return _BY_STOP_REASON.get(stop_reason, ENDED_EARLY)


def of_error(reason: str) -> int:
    """Return the exit code of a command that failed for a reason of the protocol's."""
    return _BY_ERROR.get(reason, FAILED)
