"""The ways a chat can be ended from outside, and that none of them takes for ever.

Owns signals, the last bound, and where warnings of the daemon go meanwhile. Refuses to know what
is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from treadle.cli import exit_codes
from treadle.process.waking import wake_on_signals

# A daemon shuts down within some five seconds; what takes longer hangs in a terminal that takes
# nothing and never says so. The thread is on disk by then.
ENDING_SECONDS = 10.0

# Windows has no SIGHUP and a signal of its own for a console that is closed.
_ENDING_SIGNALS = ("SIGTERM", "SIGHUP", "SIGBREAK")


class LastBound:
    """Ends the process if its orderly end takes too long."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Begin to count; a second call changes nothing."""
        if self._timer is None:
            self._timer = threading.Timer(ENDING_SECONDS, os._exit, (exit_codes.INTERRUPTED,))
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """The end was in time."""
        if self._timer is not None:
            self._timer.cancel()


@contextlib.contextmanager
def signals(on_interrupt: Callable[[], None], on_end: Callable[[], None]) -> Iterator[LastBound]:
    """Have signals call back on the running loop; what was ignored before stays ignored.

    Args:
        on_interrupt: for Ctrl-C.
        on_end: for a terminal that closes and for a request to terminate.
    """
    loop, bound = asyncio.get_running_loop(), LastBound()

    def interrupt(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(on_interrupt)

    def end(number: int, frame: FrameType | None) -> None:
        # Counted from here: the loop itself may hang in a write that the terminal does not take.
        bound.start()
        loop.call_soon_threadsafe(on_end)

    wake_on_signals(loop)
    wanted = {signal.SIGINT: interrupt}
    wanted |= {getattr(signal, name): end for name in _ENDING_SIGNALS if hasattr(signal, name)}
    before = {
        number: signal.signal(number, handler)
        for number, handler in wanted.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield bound
    finally:
        bound.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def warnings_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Have what the daemon logs as a warning told in the chat, not written across it."""
    handler = _Teller(asyncio.get_running_loop(), tell)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


# What servers do is heard from the daemon as `mcp/status`.
_TOLD_OTHERWISE = "treadle.mcp.server"


class _Teller(logging.Handler):
    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._loop = loop
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == _TOLD_OTHERWISE:
            return
        # A worker's warning that comes after the end has nobody to be told to.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, record.getMessage())
