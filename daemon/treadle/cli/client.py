"""A client of a daemon, over the same JSON-RPC that editors speak.

Owns what waits for answers. Refuses to know what a person sees of those, and where the daemon is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from treadle.cli.line import Ends, Line, is_running, open_line, workspace
from treadle.errors import DaemonFailed, DaemonGone, DaemonUnreachable
from treadle.folders import find_folders

# A daemon that is restarted is there again within a second or two; one that is gone for good is
# started by looking for it.
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

# A daemon that lives says hello at once; one that is busy needs a second or two.
HELLO_SECONDS = 15.0

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
    """Asks one daemon; made by `client_of` and `local_client`."""

    def __init__(self, on_event: OnEvent, on_request: OnRequest | None) -> None:
        self._on_event = on_event
        self._on_request = on_request
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._asked: dict[int, str] = {}  # their methods
        self._last_id = 0
        self._broken: DaemonGone | None = None
        self._breaking: asyncio.Future[None] | None = None
        self._line: Line

    async def connect(self, *, own: bool, can: dict[str, bool]) -> None:
        """Reach a daemon and say hello.

        Args:
            own: one in this very process.
            can: what it may be asked and told, as `capabilities.experimental.treadle`.

        Raises:
            DaemonUnreachable, UnsafePlace: the shared one cannot be used.
        """
        self._own, self._can = own, can
        self._line = await open_line(find_folders(), Ends(self._take, self._break), own=own)
        self._broken = None
        hello = {"capabilities": {"experimental": {"treadle": can}}, "rootUri": workspace()}
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                await self.request("initialize", hello)
        except TimeoutError:
            await self._line.close()
            raise DaemonFailed(
                f"the shared daemon has not answered for {HELLO_SECONDS:.0f} s; "
                "`treadle daemon stop --force` ends it, --no-daemon goes without it"
            ) from None

    async def reconnect(self) -> None:
        """Reach the daemon again after it was gone, however long that takes.

        Contract: to be cancelled by whoever waits no more.
        """
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self.connect(own=self._own, can=self._can)
            except DaemonUnreachable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    @property
    def is_shared(self) -> bool:
        """Whether the daemon has, or may have, other clients."""
        return self._line.is_shared

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its result.

        Raises:
            RemoteError: it was answered with an error.
            DaemonGone: the daemon has ended.
            OSError: what came meanwhile could not be told.
        """
        if self._broken is not None:
            raise self._broken
        self._last_id += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = answer
        self._asked[self._last_id] = method
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._line.send(json.dumps(message).encode())
        return await answer

    def cancel(self, method: str) -> None:
        """Withdraw this client's own requests of one method that are not answered yet."""
        for number, waiting in self._asked.items():
            if waiting == method and number in self._waiting:
                message = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
                self._line.send(json.dumps(message).encode())

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
        """Leave the daemon; what it tells of that is nobody's business any more."""
        self._on_event = lambda method, params: None
        await self._line.close()
        # What a daemon that goes on would have answered, nobody waits for any more.
        for answer in self._waiting.values():
            answer.cancel()
        answering = list(self._answering.values())
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def broken(self) -> DaemonGone:
        """Wait until the daemon is gone; return how that is told."""
        if self._broken is None:
            self._breaking = asyncio.get_running_loop().create_future()
            await self._breaking
        assert self._broken is not None
        return self._broken

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
        self._asked.pop(message["id"], None)
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
        self._line.send(json.dumps(message).encode())

    def _withdraw(self, request_id: int) -> None:
        if (task := self._answering.get(request_id)) is not None:
            task.cancel()

    def _tell(self, event: dict[str, Any]) -> None:
        try:
            self._on_event(event["method"], event["params"])
        except OSError as error:
            # As with a client that is gone: whoever waits stops waiting, and so leaves.
            self._on_event = lambda method, params: None
            self._fail(error)

    def _break(self, gone: DaemonGone) -> None:
        self._broken = gone
        self._fail(gone)
        for task in self._answering.values():
            task.cancel()
        if self._breaking is not None and not self._breaking.done():
            self._breaking.set_result(None)

    def _fail(self, error: Exception) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)


@contextlib.asynccontextmanager
async def client_of(
    on_event: OnEvent = lambda method, params: None,
    on_request: OnRequest | None = None,
    *,
    own: bool,
    can_ask: bool = False,
    stays: bool = False,
) -> AsyncIterator[Client]:
    """Connect to a daemon, and leave it at the end.

    The current folder, if it is still there, is the client's workspace, so it is where an agent
    works that names no folder of its own.

    Args:
        on_event: hears of notifications.
        on_request: is asked whether calls may run; where absent, none that asks may.
        own: a daemon in this very process, on the person's own folders, and not the shared one.
        can_ask: it can be asked a model's questions too.
        stays: its turns go on when it leaves.

    Raises:
        DaemonUnreachable, UnsafePlace: the shared one cannot be used.
    """
    client = Client(on_event, on_request)
    can = {
        "requestPermission": on_request is not None,
        "ask": can_ask,
        "cancelOnDisconnect": not stays,
    }
    await client.connect(own=own, can=can)
    try:
        yield client
    finally:
        await client.leave()


@contextlib.asynccontextmanager
async def client_of_running() -> AsyncIterator[Client | None]:
    """Connect to the shared daemon if one runs; give None, and start nothing, where none does."""
    if not is_running(find_folders()):
        yield None
        return
    async with client_of(own=False) as client:
        yield client


def local_client() -> contextlib.AbstractAsyncContextManager[Client]:
    """Start a daemon in this process for what reads alone; it shuts down at the end."""
    return client_of(own=True)
