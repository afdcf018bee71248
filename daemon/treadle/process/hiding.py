"""This process's environment and memory, hidden from the commands that it runs.

On Linux every process of a person may read `/proc/PID/environ` of every other, keys included, and
look into its memory. One that is not "dumpable" (prctl(2), PR_SET_DUMPABLE) is open to root alone:
its children are as they always are, and debuggers need root's word. Elsewhere there is nothing to
do. Refuses to know what is run.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys

logger = logging.getLogger(__name__)

# From Linux' <sys/prctl.h>.
_PR_SET_DUMPABLE = 4


def hide_from_commands() -> None:
    """Let no other process of this person read what this one was given; may be called again."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        why = os.strerror(ctypes.get_errno())
        logger.warning("commands can read this process's environment: %s", why)
