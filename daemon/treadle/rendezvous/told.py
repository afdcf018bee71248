"""What a shared daemon tells of itself to those who look for it: a small file beside its socket.

A line for each thing, so that reading it needs no decoder: `key=value`, and `environment.NAME=…`.
Owns that file. A file that cannot be read tells nothing.
"""

from __future__ import annotations

import os

from treadle.rendezvous.address import Address

# What it holds has a few hundred bytes; more than this is none of ours.
MOST_BYTES = 64 << 10

_ENVIRONMENT = "environment."

# A variable's name may be any bytes.
_ANY_NAME = "surrogateescape"


class Told:
    """What a daemon told.

    Attributes:
        pid: its process.
        version: of Treadle.
        started_at: seconds since the epoch, as it wrote them.
        port: on loopback; 0 where it listens at a Unix socket.
        token: what opens that port.
        environment: digests of what it was started with, by name.
    """

    __slots__ = ("environment", "pid", "port", "started_at", "token", "version")

    def __init__(self, lines: dict[str, str], environment: dict[str, str]) -> None:
        self.pid = int(lines["pid"])
        self.version = lines["version"]
        self.started_at = float(lines["started_at"])
        self.port = int(lines["port"])
        self.token = lines["token"]
        self.environment = environment


def write_told(
    address: Address,
    *,
    version: str,
    environment: dict[str, str],
    started_at: float,
    port: int | None = None,
    token: str | None = None,
) -> None:
    """Tell of this process, in place of whatever was told before.

    Raises:
        OSError: that cannot be written.
    """
    lines = [
        f"pid={os.getpid()}",
        f"version={version}",
        f"started_at={started_at:.3f}",
        f"port={port or 0}",
        f"token={token or ''}",
        *(f"{_ENVIRONMENT}{name}={digest}" for name, digest in environment.items()),
    ]
    # Whole or not at all: whoever reads it meanwhile reads what was there before.
    new = f"{address.told}.{os.getpid()}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, "".join(f"{line}\n" for line in lines).encode(errors=_ANY_NAME))
    finally:
        os.close(descriptor)
    os.replace(new, address.told)


def read_told(address: Address) -> Told | None:
    """Return what a daemon has told; None where there is nothing that makes sense."""
    try:
        descriptor = os.open(address.told, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            text = os.read(descriptor, MOST_BYTES).decode(errors=_ANY_NAME)
        finally:
            os.close(descriptor)
        lines: dict[str, str] = {}
        environment: dict[str, str] = {}
        for line in text.split("\n"):
            name, _, value = line.partition("=")
            if name.startswith(_ENVIRONMENT):
                environment[name.removeprefix(_ENVIRONMENT)] = value
            else:
                lines[name] = value
        return Told(lines, environment)
    except (OSError, ValueError, KeyError):
        return None


def remove_told(address: Address) -> None:
    """Tell nothing any more; for whoever holds the daemon's lock alone."""
    try:
        os.unlink(address.told)
    except OSError:
        return
