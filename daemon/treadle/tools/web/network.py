"""The two things that reaching out is made of: a name's addresses, and a connection to one.

Owns the seam. Refuses to know which addresses are good and what is said over a connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from treadle.tools.web.backend import SearchBackend

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

# From the first look at a name to the last byte; a page that takes longer is not worth a turn.
REQUEST_SECONDS = 30.0


class Network(Protocol):
    """How names become addresses, and addresses connections.

    Contract: both may raise OSError, `connect` also the errors of httpcore2; both may be
    cancelled. `connect` goes to just that address, whatever name it once stood for.
    """

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return every address of a name, those to try first in front."""

    async def connect(
        self, address: str, port: int, timeout_seconds: float | None
    ) -> AsyncNetworkStream:
        """Open a connection to an address."""


class SystemNetwork:
    """The network of this machine, without a proxy."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Ask the system's resolver.

        Raises:
            OSError: it does not know, or cannot say.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [*dict.fromkeys(str(address[0]) for *_, address in found)]

    async def connect(
        self, address: str, port: int, timeout_seconds: float | None
    ) -> AsyncNetworkStream:
        """Open a TCP connection.

        Raises:
            httpcore2.ConnectError: nobody answers there.
            httpcore2.ConnectTimeout: not in time.
        """
        from httpcore2 import AnyIOBackend

        return await AnyIOBackend().connect_tcp(address, port, timeout=timeout_seconds)


@dataclass(slots=True)
class Web:
    """What a session's tools reach the web by.

    Args:
        network: how.
        search: whom to ask for search results; nobody where absent.
        request_seconds: the bound on one request with all its redirects.
    """

    network: Network = field(default_factory=SystemNetwork)
    search: SearchBackend | None = None
    request_seconds: float = REQUEST_SECONDS
