"""Servers behind a url on loopback, in the test's own loop, and what they were asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from support.waiting import PATIENCE_SECONDS, Waitable

App = Callable[[Any, Any, Any], Awaitable[None]]
Plan = Callable[[str, dict[str, Any]], Awaitable[tuple[int, dict[str, str], bytes] | None]]

# Tests reach their servers by addresses and ports that no list of hosts names.
OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class Web(Waitable):
    """A server that runs.

    Args:
        app: what answers.
        url: where it is.
    """

    def __init__(self, app: App, url: str) -> None:
        super().__init__()
        self.app = app
        self.url = url
        self.requests: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            self.requests.append((scope["method"], headers))
            self.changed()
        await self.app(scope, receive, send)

    def asked(self, method: str) -> int:
        """Return how many requests of a method came."""
        return sum(each == method for each, _ in self.requests)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def served(app: App, *, path: str = "/mcp", port: int = 0) -> AsyncIterator[Web]:
    """Serve an application for as long as the block takes; whoever hangs then is cut off."""
    listening = socket.create_server(("127.0.0.1", port))
    # asyncio leaves it out for sockets that it did not make, and each answer waits 40 ms then.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    web = Web(app, f"http://127.0.0.1:{listening.getsockname()[1]}{path}")
    config = uvicorn.Config(
        web, log_config=None, lifespan="on", timeout_graceful_shutdown=0, ws="none"
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not server.started and not running.done():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        yield web
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE_SECONDS):
            await running
        listening.close()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Plain:
    """A server of the handshake over HTTP in a few lines, which a test has misbehave.

    Args:
        plan: asked first, with the method and the message; its status, headers and body are the
            response, and None is the server's own.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan
        self.messages: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        body = await _body(receive)
        message = json.loads(body) if body else {}
        self.messages.append(message)
        planned = await self.plan(scope["method"], message) if self.plan else None
        status, headers, content = planned or self.own(scope["method"], message)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
            }
        )
        await send({"type": "http.response.body", "body": content})

    def own(self, method: str, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if method == "GET":
            return 405, {}, b""
        if method == "DELETE":
            return 200, {}, b""
        if "id" not in message or "method" not in message:
            return 202, {}, b""
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "plain", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "echo"}]},
        }
        headers = {"content-type": "application/json", "mcp-session-id": "s1"}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        return 200, headers, json.dumps(answer).encode()


async def _body(receive: Any) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body
