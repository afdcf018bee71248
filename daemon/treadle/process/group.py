"""A child and its descendants as one group: how this platform makes, signals and ends it.

Owns every difference between POSIX and Windows; knows nothing of pipes or time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

# Set by Windows' `CREATE_NEW_PROCESS_GROUP`; named here because only Windows' module has it.
_NEW_PROCESS_GROUP = 0x00000200

# `taskkill` answers in milliseconds; a machine too busy for that must not hold up a stop.
_TASKKILL_SECONDS = 2.0


def group_options() -> dict[str, Any]:
    """Return the options of `subprocess` that put a child in a group of its own."""
    if sys.platform == "win32":
        return {"creationflags": _NEW_PROCESS_GROUP}
    # A session as well, so that no terminal's Ctrl-C reaches it before our ladder does.
    return {"start_new_session": True}


if sys.platform == "win32":

    def terminate_group(pid: int) -> None:
        """Ask the group to end."""
        _quietly(os.kill, pid, signal.CTRL_BREAK_EVENT)

    def kill_group(pid: int) -> None:
        """End the group by force. Blocks for up to two seconds."""
        _quietly(
            subprocess.run,
            ["taskkill", "/T", "/F", "/PID", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TASKKILL_SECONDS,
        )

    def group_is_alive(pid: int) -> bool:
        """Tell whether anybody of the group is left: Windows knows of its leader only."""
        return False

else:

    def terminate_group(pid: int) -> None:
        """Ask the group to end."""
        _quietly(os.killpg, pid, signal.SIGTERM)

    def kill_group(pid: int) -> None:
        """End the group by force."""
        _quietly(os.killpg, pid, signal.SIGKILL)

    def group_is_alive(pid: int) -> bool:
        """Tell whether anybody of the group is left, the dead that nobody reaped included."""
        try:
            os.killpg(pid, 0)
        except OSError:  # nobody is there, or on macOS only the dead are
            return False
        return True


def _quietly(act: Callable[..., object], *args: object, **options: object) -> None:
    """Signal a group that may have ended meanwhile: then there is nothing to do."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        act(*args, **options)
