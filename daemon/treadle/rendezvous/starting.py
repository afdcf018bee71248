"""Starting a shared daemon that outlives whoever started it: exactly one, however many want one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from treadle.errors import DaemonFailed
from treadle.places import CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.rendezvous.address import RUNTIME_VARIABLE, Address
from treadle.rendezvous.calling import call
from treadle.rendezvous.holding import Held, hold, is_held
from treadle.rendezvous.printed import end_of_printed, open_printed

# A cold start from a slow disk, on a machine that starts everything at once after a login.
START_SECONDS = 30.0

# One that was quicker answers within this, once ours has given way to it.
OTHER_SECONDS = 5.0

# How often it is looked whether the daemon is there by now.
LOOK_SECONDS = 0.01

# How much of what it printed an error shows.
TAIL_BYTES = 2000

# On Windows, where there are no sessions to leave: no console, and no Ctrl-C of another's.
_DETACHED = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(
    subprocess, "CREATE_NEW_PROCESS_GROUP", 0
)

# What says where something lies.
_PATHS = (CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE, RUNTIME_VARIABLE)


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
                # It has left for one that was quicker, which then holds that and answers soon.
                if not is_held(address.lock):
                    raise _failed(address, f"ended with code {child.returncode}")
                until = min(until, time.monotonic() + OTHER_SECONDS)
            time.sleep(LOOK_SECONDS)
        if child is not None and child.poll() is not None:
            raise DaemonFailed(
                "another shared daemon holds this data folder and cannot be reached; "
                "`treadle daemon stop --force` ends it, --no-daemon goes without it"
            )
        raise _failed(address, f"did not answer within {START_SECONDS:.0f} s")
    finally:
        if starting is not None:
            starting.release()


def _spawn(
    address: Address, data: str, config: str | None, log_level: str | None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "treadle", "serve", "--socket"]
    command += ["--data-dir", os.path.abspath(data)]
    if config is not None:
        command += ["--config-dir", os.path.abspath(os.path.expanduser(config))]
    if log_level is not None:
        command += ["--log-level", log_level]
    printed = -1
    try:
        printed = open_printed(address.stderr)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            # It keeps no folder busy, and neither the terminal's signals nor its end reach it.
            cwd=os.path.abspath(os.sep),
            start_new_session=True,
            creationflags=_DETACHED,
            env=_environment(),
        )
    except OSError as error:
        raise DaemonFailed(
            f"the shared daemon could not be started: {error}; --no-daemon goes without it"
        ) from error
    finally:
        if printed >= 0:
            os.close(printed)


def _environment() -> dict[str, str]:
    """Return what is handed down: a path that was relative to here leads to the same place."""
    environment = dict(os.environ)
    for variable in _PATHS:
        if said := environment.get(variable):
            environment[variable] = os.path.abspath(os.path.expanduser(said))
    if said := environment.get("PYTHONPATH"):
        parts = said.split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, parts))
    return environment


def _failed(address: Address, how: str) -> DaemonFailed:
    tail = end_of_printed(address.stderr, TAIL_BYTES)
    return DaemonFailed(
        f"the shared daemon {how}; `treadle daemon logs` shows more, --no-daemon goes without it"
        + (f". It printed: {tail}" if tail else "")
    )
