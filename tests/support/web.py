"""A piece of the web on loopback, and a network that leads to it.

`WebServer` answers with bytes as a test wrote them. `StandInWeb` is a `Network` whose public
addresses are such a server; every other address leads to `private`, which must stay unasked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from support.waiting import PATIENCE_SECONDS, Waitable
from treadle.permissions.policy import Policy
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.builtin import BUILTIN
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import ToolContext
from treadle.tools.web.addresses import is_public
from treadle.tools.web.backend import SearchBackend
from treadle.tools.web.network import SystemNetwork, Web

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

Writes: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]

# Where the names of tests lie; any public address would do.
PUBLIC = "93.184.215.14"


def page(
    body: bytes | str = b"", kind: str = "text/plain", status: str = "200 OK", **headers: str
) -> bytes:
    """Return an answer; `_` in the name of a header stands for `-`."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    """Return an answer that leads elsewhere."""
    return page(status=status, Location=location)


class WebServer(Waitable):
    """A server that answers by path; what it was sent stands in `requests`.

    Args:
        answers: bytes, or what writes them, by the target of the request; `*` for all others.
    """

    def __init__(self, answers: Mapping[str, bytes | Writes] | None = None) -> None:
        super().__init__()
        self.answers = dict(answers or {})
        self.requests: list[str] = []
        self.connections = 0
        self.left = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def targets(self) -> list[str]:
        """What was asked for."""
        return [request.split()[1] for request in self.requests]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.decode())
            await self._answer(head.decode().split()[1], reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left += 1
            self.changed()
            writer.close()
            self._tasks.discard(task)

    async def _answer(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if "content-length" in self.requests[-1].lower():
            self.requests[-1] += (await reader.read(65536)).decode()
        answer = self.answers.get(target, self.answers.get("*", page(status="404 Not Found")))
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(writer)


class StandInWeb:
    """A network of tests: names by a table, public addresses on loopback.

    Args:
        server: what every public address is.
        names: the addresses of names; a list of lists is taken one at a time, an error is raised.
        private: what every other address is.
    """

    def __init__(
        self,
        server: WebServer,
        names: Mapping[str, Sequence[str] | Sequence[Sequence[str]] | Exception] | None = None,
        private: WebServer | None = None,
    ) -> None:
        self._server = server
        self._private = private or server
        self._names = dict(names or {"docs.example": [PUBLIC]})
        self.resolved: list[str] = []
        self.connected: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Answer from the table."""
        self.resolved.append(host)
        found: Any = self._names.get(host, OSError("no such name"))
        if isinstance(found, Exception):
            raise found
        if found and isinstance(found[0], list):
            return list(found[min(self.resolved.count(host), len(found)) - 1])
        return list(found)

    async def connect(
        self, address: str, port: int, timeout_seconds: float | None
    ) -> AsyncNetworkStream:
        """Connect to what stands in for an address."""
        self.connected.append((address, port))
        server = self._server if is_public(address) else self._private
        return await SystemNetwork().connect("127.0.0.1", server.port, timeout_seconds)


async def fetch(
    network: StandInWeb,
    url: str,
    hosts: Sequence[str] = ("docs.example",),
    *,
    request_seconds: float = PATIENCE_SECONDS,
    **arguments: Any,
) -> ToolOutcome:
    """Have a model of a read-only agent fetch something."""
    session = ToolSession()
    session.web = Web(network, request_seconds=request_seconds)
    context = ToolContext(VirtualSandbox(), session, Policy(fetch_allow=tuple(hosts)))
    return await run_call(ToolCall("1", "fetch", {"url": url, **arguments}), BUILTIN, context)


async def search(
    network: StandInWeb,
    backend: SearchBackend | None,
    *,
    request_seconds: float = PATIENCE_SECONDS,
    **arguments: Any,
) -> ToolOutcome:
    """Have a model search that may do anything."""
    session = ToolSession()
    session.web = Web(network, backend, request_seconds)
    context = ToolContext(VirtualSandbox(), session, Policy("auto"))
    return await run_call(ToolCall("1", "web_search", arguments), BUILTIN, context)
