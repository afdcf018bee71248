"""A client of a daemon in this very process, over the same JSON-RPC that editors speak.

Owns the connection and what waits for answers. Refuses to know what a person sees of those.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from treadle.cli.streams import tell
from treadle.folders import find_folders
from treadle.runtime.runtime import Runtime
from treadle.server.connection import Connection
from treadle.server.log import start_log

OnEvent: TypeAlias = Callable[[str, dict[str, Any]], None]
"""Called with a notification's method and params. Contract: must not block; an OSError says that
nobody can be told any more, fails every request that waits and is not called again."""

OnRequest: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers what the daemon asks, by its method and params. Contract: it is cancelled where that is
withdrawn; what it raises is answered as an error."""


class RemoteError(Exception):
    """The daemon answered a request with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error

    @property
    def reason(self) -> str:
        """Which kind of failure it is; empty for a fault of the protocol."""
        return str((self.error.get("data") or {}).get("reason", ""))


class Client:
    """Asks one daemon; made by `local_client`."""

    def __init__(self, on_event: OnEvent, on_request: OnRequest | None) -> None:
        folders = find_folders()
        start_log(folders, on_failure=lambda error: tell(f"treadle: no log: {error}"))
        runtime = Runtime(folders)
        self._on_event = on_event
        self._on_request = on_request
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._connection = Connection(
            folders,
            lambda: runtime,
            send=self._take,
            on_shutdown=runtime.close,
        )

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its result.

        Raises:
            RemoteError: it was answered with an error.
            OSError: what came meanwhile could not be told.
        """
        self._last_id += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = answer
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._connection.receive(json.dumps(message).encode())
        return await answer

    async def pages(self, method: str, params: dict[str, Any]) -> AsyncIterator[Any]:
        """Ask for every page of a list, one after the other.

        Args:
            method: one whose result may have a `nextCursor`.
            params: what the first page is asked for with.

        Yields:
            The results.

        Raises:
            RemoteError: a page was answered with an error.
        """
        page = await self.request(method, params)
        yield page
        while "nextCursor" in page:
            page = await self.request(method, {**params, "cursor": page["nextCursor"]})
            yield page

    async def model_of(self, agent: str) -> str:
        """Return the name of the model that answers for an agent; empty where none is known."""
        listed = await self.request("agent/list")
        return next((each["model"] or "" for each in listed["agents"] if each["name"] == agent), "")

    async def leave(self) -> None:
        """Shut the daemon down; what it tells of that is nobody's business any more."""
        self._on_event = lambda method, params: None
        await self.request("shutdown")
        answering = list(self._answering.values())
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    def _take(self, body: bytes) -> None:
        message = json.loads(body)
        if "method" in message:
            if "id" in message:
                self._answer(message)
            elif message["method"] == "$/cancelRequest":
                self._withdraw(message["params"]["id"])
            else:
                self._tell(message)
            return
        answer = self._waiting.pop(message["id"], None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(RemoteError(message["error"]))
        else:
            answer.set_result(message["result"])

    def _answer(self, request: dict[str, Any]) -> None:
        request_id = request["id"]
        task = asyncio.ensure_future(self._answered(request))
        self._answering[request_id] = task
        task.add_done_callback(lambda _: self._answering.pop(request_id, None))

    async def _answered(self, request: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"error": {"code": -32601, "message": "nobody can be asked here"}}
        if self._on_request is not None:
            try:
                reply = {"result": await self._on_request(request["method"], request["params"])}
            except Exception as error:
                reply = {"error": {"code": -32603, "message": str(error)}}
        message = {"jsonrpc": "2.0", "id": request["id"], **reply}
        self._connection.receive(json.dumps(message).encode())

    def _withdraw(self, request_id: int) -> None:
        if (task := self._answering.get(request_id)) is not None:
            task.cancel()

    def _tell(self, event: dict[str, Any]) -> None:
        try:
            self._on_event(event["method"], event["params"])
        except OSError as error:
            # As with a client that is gone: whoever waits stops waiting, and so leaves.
            self._on_event = lambda method, params: None
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(error)


@contextlib.asynccontextmanager
async def local_client(
    on_event: OnEvent = lambda method, params: None,
    on_request: OnRequest | None = None,
    *,
    can_ask: bool = False,
) -> AsyncIterator[Client]:
    """Start a daemon on the person's own folders and connect to it; it shuts down at the end.

    The current folder, if it is still there, is the client's workspace, so it is where an agent
    works that names no folder of its own.

    Args:
        on_event: hears of notifications.
        on_request: is asked whether calls may run; where absent, none that asks may.
        can_ask: it can be asked a model's questions too.
    """
    client = Client(on_event, on_request)
    answers = {"requestPermission": on_request is not None, "ask": can_ask}
    capabilities = {"experimental": {"treadle": answers}}
    hello = {"capabilities": capabilities, "rootUri": _current_folder()}
    await client.request("initialize", hello)
    try:
        yield client
    finally:
        await client.leave()


def _current_folder() -> str | None:
    try:
        return Path.cwd().as_uri()
    except FileNotFoundError:
        return None
