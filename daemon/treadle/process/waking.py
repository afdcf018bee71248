"""Signals and the event loop: a loop that sleeps is woken, whenever a signal comes.

Owns the descriptor that a signal writes to. Refuses to know which signals, and what they mean.

Python runs a signal's handler between two steps of its own. A signal that comes right before the
loop goes to sleep, or that the system hands to another thread, would wait for the next event.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys

# What a signal adds is a byte; nobody sends as many before one turn of the loop.
_READ_BYTES = 4096

# Kept for the life of the process: it may be told to end at any moment until then.
_ends: list[socket.socket] = []


def wake_on_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Have every signal that has a handler of ours wake the loop; call it in the main thread.

    On Windows there is nothing to do: its loop does this by itself.

    Args:
        loop: the one that is running.
    """
    if sys.platform == "win32":
        return
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    loop.add_reader(ours, ours.recv, _READ_BYTES)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    _ends.extend((ours, theirs))
