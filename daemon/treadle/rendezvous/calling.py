"""Connecting to the shared daemon that is there now, if one is."""

from __future__ import annotations

import socket

from treadle.rendezvous.address import Address, uses_tcp
from treadle.rendezvous.holding import is_held
from treadle.rendezvous.told import read_told

# A daemon that lives takes a connection at once; its system does so for it even while it is busy.
CONNECT_SECONDS = 5.0


def call(address: Address) -> socket.socket | None:
    """Connect to the daemon; None where nobody listens.

    Returns:
        A connected socket that blocks, on which frames can be sent.
    """
    # One that listens where this process would not is the one of this data folder all the same.
    ways = (_on_loopback,) if uses_tcp() else (_at_socket, _on_loopback)
    for way in ways:
        try:
            if (connected := way(address)) is not None:
                return connected
        except OSError:
            continue
    return None


def _at_socket(address: Address) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(CONNECT_SECONDS)
        connected.connect(address.socket)
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected


def _on_loopback(address: Address) -> socket.socket | None:
    told = read_told(address)
    # A port that a killed daemon had may be anybody's by now.
    if told is None or not told.port or not is_held(address.lock):
        return None
    connected = socket.create_connection(("127.0.0.1", told.port), CONNECT_SECONDS)
    try:
        connected.sendall(f"{told.token}\n".encode())
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected
