"""Connecting to the shared daemon that is there now, if one is."""

from __future__ import annotations

import socket

from treadle.rendezvous.address import Address, uses_tcp
from treadle.rendezvous.told import read_told

# A daemon that lives takes a connection at once; its system does so for it even while it is busy.
CONNECT_SECONDS = 5.0


def call(address: Address) -> socket.socket | None:
    """Connect to the daemon; None where nobody listens.

    Returns:
        A connected socket that blocks, on which frames can be sent.
    """
    try:
        return _on_loopback(address) if uses_tcp() else _at_socket(address)
    except OSError:
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
    if told is None or not told.port:
        return None
    connected = socket.create_connection(("127.0.0.1", told.port), CONNECT_SECONDS)
    try:
        connected.sendall(f"{told.token}\n".encode())
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected
