"""A shared daemon of the test's own, its clients by way of `treadle connect`, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon
from support.waiting import PATIENCE_SECONDS
from treadle.folders import DATA_VARIABLE
from treadle.rendezvous.address import Address, address_of
from treadle.rendezvous.holding import is_held
from treadle.rendezvous.reaching import wait_until_gone
from treadle.rendezvous.told import read_told

CONNECT = (sys.executable, "-m", "treadle", "connect")


_OTHER = (
    "from treadle import version\nversion.__version__ = '0.0.1'\n"
    "from treadle.cli.main import main\nraise SystemExit(main(['serve', '--socket']))\n"
)


def meeting() -> Address:
    """Return where the daemon of the test's data folder is met."""
    return address_of(os.environ[DATA_VARIABLE])


def is_there(path: str) -> bool:
    """Tell whether a file is there."""
    return Path(path).exists()


def daemon_pid() -> int:
    """Return the process of the daemon that runs."""
    told = read_told(meeting())
    assert told is not None
    return told.pid


@contextlib.asynccontextmanager
async def connected(
    *arguments: str, env: Mapping[str, str] | None = None, **spawn: Any
) -> AsyncIterator[Daemon]:
    """Connect to the shared daemon, which is started if need be; see `support.daemon.daemon`."""
    async with daemon(*arguments, env=env, program=CONNECT, **spawn) as client:
        yield client


def other_version() -> subprocess.Popen[bytes]:
    """Start a shared daemon that says it is Treadle 0.0.1."""
    return subprocess.Popen([sys.executable, "-c", _OTHER])


def end_daemon() -> None:
    """End the daemon, in order if it can, and see that nothing of it is left."""
    address = meeting()
    told = read_told(address)
    if told is not None and is_held(address.lock):
        os.kill(told.pid, signal.SIGTERM)
        if not wait_until_gone(address, PATIENCE_SECONDS):
            os.kill(told.pid, signal.SIGKILL)
            raise AssertionError("the shared daemon did not end in order")
    assert not is_held(address.lock)


def kill_daemon() -> int:
    """Kill the daemon, as a system out of memory does; return its number."""
    pid = daemon_pid()
    os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(meeting(), PATIENCE_SECONDS)
    return pid
