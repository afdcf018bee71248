"""Where a shared daemon is reached, and who gets in: nobody but the person it serves.

Owns the listening socket and the proof that whoever connects may. Refuses to know what they say.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

# Clients that are started together come together: fifty editors' bridges in one moment.
BACKLOG = 512

# 256 bits, as hexadecimal digits and a line end.
TOKEN_BYTES = 32
TOKEN_LINE_BYTES = 2 * TOKEN_BYTES + 1


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that listens.

    Args:
        socket: it.
        port: on loopback; None for a Unix socket.
        token: what a client has to send first, where anybody on this machine can connect.
    """

    socket: socket.socket
    port: int | None = None
    token: str | None = None


def listen_at(path: Path) -> Listening:
    """Listen at a path that nobody but its owner can connect to; what lies there goes.

    Raises:
        OSError: that cannot be done there.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        # Between `bind` and `chmod` the folder, which is the person's alone, keeps others out.
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return Listening(listener)


def listen_on_loopback() -> Listening:
    """Listen on a port of this machine alone, behind a token.

    Raises:
        OSError: that cannot be done.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return Listening(listener, listener.getsockname()[1], secrets.token_hex(TOKEN_BYTES))


def is_ours(connected: socket.socket) -> bool:
    """Whether a process of this very person, or of root, is at the other end of a Unix socket.

    Where the system does not tell, the mode of the socket and of its folder are the guard.
    """
    user = _user_at(connected)
    if user is None or user in (os.geteuid(), 0):
        return True
    logger.warning("a process of user %d tried to connect and was turned away", user)
    return False


def is_token(line: bytes, token: str) -> bool:
    """Whether a client's first line is the token, compared in a time that tells nothing."""
    return hmac.compare_digest(line, f"{token}\n".encode())


def _user_at(connected: socket.socket) -> int | None:
    """Return the user at the other end: unix(7), SO_PEERCRED; unix(4) of BSD, LOCAL_PEERCRED."""
    try:
        if sys.platform == "linux":
            size = struct.calcsize("3i")
            data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            return int(struct.unpack("3i", data)[1])
        if sys.platform == "darwin":
            sol_local, local_peercred = 0, 1
            data = connected.getsockopt(sol_local, local_peercred, 76)  # struct xucred
            return int(struct.unpack_from("2I", data)[1])
    except OSError as error:
        logger.info("who has connected cannot be told: %s", error)
    return None
