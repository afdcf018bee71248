"""The end of a daemon's process: by a signal, in order, and in time whatever hangs.

Owns signals and the exit code. Refuses to know what has to be closed before.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import threading
from collections.abc import Callable

from treadle.process.waking import wake_on_signals

# A loop that code of somebody's keeps busy can not end in order. After a signal the process goes
# down all the same, later than every bound above together, and shows where each thread was.
HUNG_SECONDS = 20.0

# When all is done the process ends, even if a thread hangs in a system call.
EXIT_SECONDS = 2.0

# What a daemon ends with that could keep something nowhere: EX_IOERR of sysexits, which is neither
# an exit without `shutdown` nor a client that does not read.
LOST_CODE = 74

# Windows has fewer of them.
_ENDING_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]


def catch_signals(loop: asyncio.AbstractEventLoop, on_signal: Callable[[], None]) -> None:
    """Turn the signals that end a process into a bounded end.

    They stay caught: a second one, or one that comes late, must not cut that end short.

    Args:
        loop: the one that is running.
        on_signal: called in it.
    """

    def caught(*_: object) -> None:
        # Without a descriptor to show it on there is no such guard, but an end in order.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
        # The loop is closed when all is done; then nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(on_signal)

    wake_on_signals(loop)
    for number in _ENDING_SIGNALS:
        signal.signal(number, caught)


def exit_surely(code: int) -> None:
    """Let the process end with a code within a bound; call it when all is closed.

    A late signal must not turn a good end into a death: the interpreter takes its handlers down
    before it is gone, and what is ignored stays ignored.
    """
    for number in _ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    timer = threading.Timer(EXIT_SECONDS, os._exit, [code])
    timer.daemon = True
    timer.start()
