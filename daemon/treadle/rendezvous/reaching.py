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
from treadle.rendezvous.holding import hold, is_held
from treadle.rendezvous.told import Told, read_told
from treadle.version import __version__

# A daemon that ends has bounds for all it does, which together stay below this.
STOP_SECONDS = 20.0

# Somebody else who replaces one stops it, which has a bound of its own.
REPLACE_SECONDS = 30.0

# How often it is looked whether it is gone, or whose turn it is.
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
    try:
        return _reach(address, data, config, log_level, may_start=may_start)
    except OSError as error:
        from treadle.errors import DaemonFailed

        raise DaemonFailed(
            f"the shared daemon cannot be met in {address.folder}: {error}; --no-daemon goes "
            "without it"
        ) from error


def _reach(
    address: Address, data: str, config: str | None, log_level: str | None, *, may_start: bool
) -> Reached:
    if may_start and not _is_as_wanted(read_told(address), config):
        _replace_if_idle(address, config)
    connected = call(address)
    if connected is None:
        if not may_start:
            from treadle.errors import NoDaemon

            raise NoDaemon(f"no shared daemon runs for {data}")
        from treadle.rendezvous.starting import start

        connected = start(address, data, config, log_level)
    told = read_told(address)
    if told is not None and told.version != __version__:
        connected.close()
        raise _other_version(told)
    return Reached(connected, told, differing(told, config) if told is not None else [])


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


def _is_as_wanted(told: Told | None, config: str | None) -> bool:
    """Whether a daemon, if one is there, is what this process would start."""
    return told is None or (told.version == __version__ and not differing(told, config))


def _replace_if_idle(address: Address, config: str | None) -> None:
    """Stop a daemon that nobody uses.

    One after the other: many who look at once would each take the others for somebody at work.
    """
    until = time.monotonic() + REPLACE_SECONDS
    while (starting := hold(address.starting)) is None:
        if time.monotonic() > until:
            return
        time.sleep(LOOK_SECONDS)
    try:
        if _is_as_wanted(read_told(address), config):
            return  # whoever held that has done it
        if (connected := call(address)) is not None:
            _stop_if_idle(address, connected)
    finally:
        starting.release()


def _stop_if_idle(address: Address, connected: socket.socket) -> None:
    from treadle.rendezvous.asking import NoAnswer, ask

    with connected:
        try:
            stopping = ask(connected, "daemon/stop", {"ifIdle": True})["stopping"]
        except (NoAnswer, KeyError, TypeError):
            return
    if stopping:
        wait_until_gone(address)


def _other_version(told: Told) -> Exception:
    from treadle.errors import DaemonOfOtherVersion

    return DaemonOfOtherVersion(
        f"the shared daemon (pid {told.pid}) is Treadle {told.version}, this is {__version__}, "
        "and it is at work; end what it does, or stop it by `treadle daemon stop`, or go without "
        "it by --no-daemon",
        version=told.version,
    )
