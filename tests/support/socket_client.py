"""A client straight on the shared daemon's socket: hundreds of them fit into one test."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from support.daemon import RpcError, frame
from support.shared import meeting
from support.waiting import PATIENCE_SECONDS, Waitable


class SocketClient(Waitable):
    """Speaks to the daemon; `log` has what came, in order, `at` when by the loop's clock."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self.log: list[dict[str, Any]] = []
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._reading = asyncio.create_task(self._read(reader))

    def ask(self, method: str, params: dict[str, Any] | None = None) -> asyncio.Future[Any]:
        """Send a request; the future has its result or its RpcError."""
        self._last_id += 1
        answer = self._waiting[self._last_id] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}
        self._writer.write(frame(message))
        return answer

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its result, within a bound."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.ask(method, params)

    def of(self, method: str, instance: str) -> list[dict[str, Any]]:
        """Return the params of the notifications of one method and session."""
        return [
            message["params"]
            for message in self.log
            if message.get("method") == method and message["params"].get("instance") == instance
        ]

    async def close(self) -> None:
        """Go away."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        await asyncio.wait({self._reading})

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while header := await reader.readline():
                await reader.readline()
                self._take(json.loads(await reader.readexactly(int(header.split(b":")[1]))))
                self.changed()

    def _take(self, message: dict[str, Any]) -> None:
        self.log.append(message)
        if "method" in message:
            return
        answer = self._waiting.pop(message["id"])
        if "error" in message:
            answer.set_exception(RpcError(message["error"]))
        else:
            answer.set_result(message["result"])


@contextlib.asynccontextmanager
async def socket_clients(count: int) -> AsyncIterator[list[SocketClient]]:
    """Connect many clients to the daemon that runs; all have said hello."""
    clients = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_unix_connection(meeting().socket, limit=1 << 24)
            clients.append(SocketClient(reader, writer))
        await asyncio.gather(
            *(client.request("initialize", {"capabilities": {}}) for client in clients)
        )
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))
