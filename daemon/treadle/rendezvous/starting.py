"""Starting a shared daemon that outlives whoever started it: exactly one, however many want one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from treadle.errors import DaemonFailed
from treadle.rendezvous.address import Address
from treadle.rendezvous.calling import call
from treadle.rendezvous.holding import Held, hold

# A cold start from a slow disk, on a machine that starts everything at once after a login.
START_SECONDS = 30.0

# How often it is looked whether the daemon is there by now.
LOOK_SECONDS = 0.01

# What it printed before: enough for a traceback of the last time, not for years of them.
STDERR_BYTES = 256 << 10

# How much of what it printed an error shows.
TAIL_BYTES = 2000


def start(
    address: Address, data: str, config: str | None, log_level: str | None = None
) -> socket.socket:
    """Start the daemon of a data folder, unless somebody else is doing so, and connect to it.

    Args:
        address: where it is met.
        data: its data folder.
        config: the value of `--config-dir`.
        log_level: the value of `--log-level`.

    Raises:
        DaemonFailed: it does not come to answer; the message has what it printed.
    """
    until = time.monotonic() + START_SECONDS
    starting: Held | None = None
    child: subprocess.Popen[bytes] | None = None
    try:
        while time.monotonic() < until:
            if (connected := call(address)) is not None:
                return connected
            if starting is None:
                starting = hold(address.starting)
            elif child is None:
                child = _spawn(address, data, config, log_level)
            elif child.poll() is not None:
                # Somebody else's may have been quicker, and ours has left for that.
                if (connected := call(address)) is not None:
                    return connected
                raise _failed(address, f"ended with code {child.returncode}")
            time.sleep(LOOK_SECONDS)
        raise _failed(address, f"did not answer within {START_SECONDS:.0f} s")
    finally:
        if starting is not None:
            starting.release()


def _spawn(
    address: Address, data: str, config: str | None, log_level: str | None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "treadle", "serve", "--socket", "--data-dir", data]
    if config is not None:
        command += ["--config-dir", config]
    if log_level is not None:
        command += ["--log-level", log_level]
    printed = _open_printed(address.stderr)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            # It keeps no folder busy, and neither the terminal's signals nor its end reach it.
            cwd=os.path.abspath(os.sep),
            start_new_session=True,
        )
    except OSError as error:
        raise DaemonFailed(f"the shared daemon could not be started: {error}") from error
    finally:
        os.close(printed)


def _open_printed(path: str) -> int:
    """Open the file for what a daemon prints; one that has grown large is begun anew."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
        if os.fstat(descriptor).st_size > STDERR_BYTES:
            os.truncate(descriptor, 0)
    except OSError as error:
        raise DaemonFailed(f"the shared daemon could not be started: {error}") from error
    return descriptor


def _failed(address: Address, how: str) -> DaemonFailed:
    try:
        with open(address.stderr, "rb") as printed:
            size_bytes = printed.seek(0, os.SEEK_END)
            printed.seek(max(0, size_bytes - TAIL_BYTES))
            tail = printed.read().decode(errors="replace").strip()
    except OSError:
        tail = ""
    return DaemonFailed(
        f"the shared daemon {how}; `treadle daemon logs` shows more, --no-daemon goes without it"
        + (f". It printed: {tail}" if tail else "")
    )
