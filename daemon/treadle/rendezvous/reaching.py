"""Reaching the shared daemon of a data folder: the one that runs, or one that is started for it.

Owns that whoever gets a connection gets one to this very version, started as this process would
start it, as far as that can be had without disturbing anybody's work.
"""

from __future__ import annotations

import socket
import time

from treadle.rendezvous.address import Address, address_of
from treadle.rendezvous.calling import call
from treadle.rendezvous.environment import differing
from treadle.rendezvous.holding import is_held
from treadle.rendezvous.told import Told, read_told
from treadle.version import __version__

# A daemon that ends has bounds for all it does, which together stay below this.
STOP_SECONDS = 20.0

# How often it is looked whether it is gone.
LOOK_SECONDS = 0.01


class Reached:
    """A connection to a shared daemon.

    Attributes:
        connected: the socket; it blocks, and frames can be sent on it.
        told: what the daemon told of itself.
        differing: what it was started with that is different here, by name.
    """

    __slots__ = ("connected", "differing", "told")

    def __init__(self, connected: socket.socket, told: Told | None, differing: list[str]) -> None:
        self.connected = connected
        self.told = told
        self.differing = differing


def reach(
    data: str,
    config: str | None = None,
    *,
    log_level: str | None = None,
    may_start: bool = True,
) -> Reached:
    """Connect to the daemon of a data folder.

    One of another version, or with another environment, is replaced where nobody uses it.

    Args:
        data: the data folder.
        config: the value of `--config-dir`.
        log_level: how much one that is started logs.
        may_start: whether one is started where there is none, or where it has to be replaced.

    Raises:
        UnsafePlace: others could reach the place where it is met.
        NoDaemon: there is none, and none was to be started.
        DaemonFailed: one was started and does not answer.
        DaemonOfOtherVersion: it is another version's, and is at work.
    """
    address = address_of(data)
    connected = call(address)
    if connected is not None:
        told = read_told(address)
        different = differing(told, config) if told is not None else []
        is_ours = told is None or told.version == __version__
        if is_ours and not different:
            return Reached(connected, told, [])
        if not (may_start and _stop_if_idle(address, connected)):
            if not is_ours:
                raise _other_version(told)
            if (again := call(address)) is not None:
                return Reached(again, told, different)
    if not may_start:
        from treadle.errors import NoDaemon

        raise NoDaemon("no shared daemon runs for this data folder")
    from treadle.rendezvous.starting import start

    connected = start(address, data, config, log_level)
    return Reached(connected, read_told(address), [])


def wait_until_gone(address: Address, timeout_seconds: float = STOP_SECONDS) -> bool:
    """Wait until a daemon that was told to stop has let go of everything.

    Args:
        address: where it is met.
        timeout_seconds: how long.

    Returns:
        Whether it has.
    """
    until = time.monotonic() + timeout_seconds
    while is_held(address.lock):
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def _stop_if_idle(address: Address, connected: socket.socket) -> bool:
    """Stop a daemon that nobody else uses; return whether it is gone."""
    from treadle.rendezvous.asking import NoAnswer, ask

    with connected:
        try:
            stopping = ask(connected, "daemon/stop", {"ifIdle": True})["stopping"]
        except (NoAnswer, KeyError, TypeError):
            return False
    return bool(stopping) and wait_until_gone(address)


def _other_version(told: Told | None) -> Exception:
    from treadle.errors import DaemonOfOtherVersion

    version = told.version if told else "unknown"
    pid = told.pid if told else "unknown"
    return DaemonOfOtherVersion(
        f"the shared daemon (pid {pid}) is Treadle {version}, this is {__version__}, and it is at "
        "work; end what it does, or stop it by `treadle daemon stop`, or go without it by "
        "--no-daemon",
        version=version,
    )
