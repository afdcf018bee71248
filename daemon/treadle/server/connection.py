"""A connection: LSP's lifecycle, and the way of each frame to dispatch and back.

Owns what may be said when. Refuses to know who frames and carries bodies, and what methods do.
`initialize` is answered before anything that a session needs is loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from treadle.errors import (
    ConfigurationError,
    InternalError,
    InvalidRequest,
    NotInitialized,
    Overloaded,
    ProtocolError,
    TreadleError,
)
from treadle.folders import Folders
from treadle.protocol.base import Empty, WireStruct
from treadle.protocol.editor import ProgressCancelParams
from treadle.protocol.lifecycle import (
    CancelRequestParams,
    DidChangeFoldersParams,
    SetTraceParams,
)
from treadle.protocol.methods import is_request
from treadle.server.client_requests import ClientRequests
from treadle.server.dispatch import Dispatch, Reply, refuse
from treadle.server.editor.methods import is_editors
from treadle.server.home import Home
from treadle.server.introduction import Hello, introduction, moved, read_hello
from treadle.server.joining import is_late
from treadle.server.log import ask_level, withdraw_level
from treadle.server.log.asker import on_behalf_of
from treadle.server.trace import Trace
from treadle.server.wire.envelope import (
    EnvelopeError,
    Notification,
    Request,
    decode,
    decode_params,
    encode_notification,
)
from treadle.server.wire.framing import BadFrame

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime
    from treadle.server.log.to_client import ClientLog
    from treadle.server.peer import Peer

logger = logging.getLogger(__name__)

# What a daemon without room for more clients answers all the same.
_ALWAYS_TAKEN = ("daemon/", "shutdown")

Phase: TypeAlias = Literal["new", "ready", "shut down"]

# Requests that are in flight when a connection ends get this long to answer by themselves,
# and as long again once they were cancelled.
CLOSE_SECONDS = 1.0


class Connection:
    """One client's connection to the runtime.

    Args:
        folders: where configuration, data and cache lie.
        open_runtime: gives the runtime, at the first request that leads there.
        send: sends one body; must not raise or block.
        pending_bytes: how much of what was sent the client has not taken.
        home: what its daemon is; where left out, this process has no other client.
        refusal: answers all that is not about the daemon itself, where there is no room for it.
        on_shutdown: what `shutdown` means here; awaited before it is answered.
        on_exit: called with the exit code that `exit` asks for.
        on_client: called once with the `processId` of `initialize`, if there is one.
        hold: called with True when the client has to wait before it sends more, with False
            when it may go on.
    """

    def __init__(
        self,
        folders: Folders,
        open_runtime: Callable[[], Runtime],
        *,
        send: Callable[[bytes], None],
        pending_bytes: Callable[[], int] = lambda: 0,
        home: Home | None = None,
        refusal: Overloaded | None = None,
        on_shutdown: Callable[[], Awaitable[None]],
        on_exit: Callable[[int], None] = lambda _: None,
        on_client: Callable[[int], None] = lambda _: None,
        hold: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._folders = folders
        self._open_runtime = open_runtime
        self._send = send
        self._pending_bytes = pending_bytes
        self._home = home or Home("memory", clients=lambda: 1)
        self._refusal = refusal
        self._on_shutdown = on_shutdown
        self._on_exit = on_exit
        self._on_client = on_client
        self._hold = hold
        self._phase: Phase = "new"
        self._hello: Hello | None = None
        self._requests = ClientRequests(send)
        self._trace = Trace(lambda params: self._notify("$/logTrace", params), pending_bytes)
        self._client_log: ClientLog | None = None
        self._peer: Peer | None = None
        self._dispatch: Dispatch[Peer] | None = None
        self._listeners: dict[str, Callable[[bytes], None]] = {
            "$/cancelRequest": self._cancel,
            "$/setTrace": self._set_trace,
            "window/workDoneProgress/cancel": self._cancel_progress,
            "workspace/didChangeWorkspaceFolders": self._move,
        }

    def receive(self, frame: bytes | BadFrame) -> None:
        """Take one frame of the client's; whatever it holds, the connection lives."""
        with on_behalf_of(self):
            self._take(frame)

    def _take(self, frame: bytes | BadFrame) -> None:
        if isinstance(frame, BadFrame):
            refuse(None, frame.error, self._send)
            return
        try:
            message = decode(frame)
        except EnvelopeError as refused:
            refuse(refused.request_id, refused.error, self._send)
            return
        if isinstance(message, Request):
            self._request(message)
        elif isinstance(message, Notification):
            self._notification(message)
        else:
            self._requests.settle(message)

    def client_reads_again(self) -> None:
        """Send what was held back for a slow client."""
        if self._peer is not None:
            self._peer.reads_again()

    async def close(self) -> None:
        """End what is in flight, each request with its reply, and stop watching sessions.

        What it has begun in sessions goes on where its daemon does, unless it said otherwise.
        """
        if self._peer is not None and self._home.is_shared:
            self._peer.person.leave()
        self._requests.close()
        if self._peer is not None:
            # First, because requests may wait for what their editor has open, or for it to read.
            await self._peer.editor.close()
            self._peer.wait_no_more()
        if self._dispatch is not None:
            await self._dispatch.close(CLOSE_SECONDS)
        self.client_reads_again()
        if self._peer is not None:
            await self._peer.leave()
        if self._client_log is not None:
            self._client_log.close()
        withdraw_level(self)

    def _request(self, request: Request) -> None:
        if self._phase == "shut down":
            self._refuse(request, InvalidRequest("after shutdown only exit is taken"))
        elif request.method == "initialize":
            self._initialize(request)
        elif self._phase == "new":
            self._refuse(request, NotInitialized("the first request has to be initialize"))
        elif self._refusal is not None and not request.method.startswith(_ALWAYS_TAKEN):
            self._refuse(request, self._refusal)
        else:
            self._run(request)

    def _run(self, request: Request) -> None:
        dispatch = self._loaded()
        if dispatch is None:
            self._refuse(request, InternalError("the daemon is broken; its log says how"))
        elif dispatch.request(request) and request.method == "shutdown":
            self._phase = "shut down"

    def _notification(self, notification: Notification) -> None:
        if notification.method == "exit":
            self._on_exit(0 if self._phase == "shut down" else 1)
        elif self._phase != "ready":
            return
        elif notification.method in self._listeners:
            self._listen(notification)
        elif is_request(notification.method) and (dispatch := self._loaded()) is not None:
            dispatch.notification(notification)
        elif is_editors(notification.method) and self._loaded() and self._peer is not None:
            self._peer.editor.take(notification)

    def _listen(self, notification: Notification) -> None:
        try:
            self._listeners[notification.method](notification.params)
        except ProtocolError as error:
            logger.info("a %s that cannot be read: %s", notification.method, error.data)

    def _cancel(self, params: bytes) -> None:
        if self._dispatch is not None:
            self._dispatch.cancel(decode_params(_cancel_decoder, params).id)

    def _cancel_progress(self, params: bytes) -> None:
        token = decode_params(_progress_decoder, params).token
        if self._peer is not None:
            # After the first step of a prompt that came just before, which makes its token known.
            asyncio.get_running_loop().call_soon(self._peer.progress.cancel, token)

    def _set_trace(self, params: bytes) -> None:
        self._trace.begin(decode_params(_trace_decoder, params).value)

    def _move(self, params: bytes) -> None:
        """Work in other folders; what is open already stays where it is."""
        if self._hello is not None:
            change = decode_params(_folders_decoder, params).event
            self._hello.folders[:] = moved(self._hello.folders, change)

    def _initialize(self, request: Request) -> None:
        if self._phase != "new":
            self._refuse(request, InvalidRequest("initialize was sent already"))
            return
        try:
            hello = read_hello(request.params)
        except ProtocolError as error:
            self._refuse(request, error)
            return
        self._phase = "ready"
        self._hello = hello
        self._trace.begin(hello.params.trace)
        logger.info("connected: %s", hello.client_name)
        Reply(request.id, self._send).result(introduction(hello, self._folders))
        if hello.params.process_id is not None:
            self._on_client(hello.params.process_id)

    def _loaded(self) -> Dispatch[Peer] | None:
        """Return what answers requests, loaded at the first of them; None when that fails."""
        try:
            if self._dispatch is None:
                self._load()
        except Exception:
            logger.exception("what answers requests could not be loaded")
        return self._dispatch

    def _load(self) -> None:
        from treadle.server.editor.tenant import Editor
        from treadle.server.handlers import HANDLERS
        from treadle.server.log.to_client import ClientLog
        from treadle.server.peer import Peer
        from treadle.server.person import Person

        hello = self._hello
        assert hello is not None
        self._peer = Peer(
            self._open_runtime(),
            Editor(
                hello=hello,
                requests=self._requests,
                notify=self._notify,
                hold=self._hold,
                configured=self._configured,
            ),
            Person(hello, self._requests),
            hello.folders,
            home=self._home,
            shows_results=hello.params.treadle() is not None,
            notify=self._notify,
            pending_bytes=self._pending_bytes,
            opt_out=frozenset(hello.options.opt_out),
        )
        handlers = {**HANDLERS, "shutdown": self._shut_down}
        if "window" in hello.capabilities:
            self._client_log = ClientLog(
                lambda params: self._notify("window/logMessage", params),
                lambda: is_late(self._pending_bytes()),
                whose=self,
            )
        self._dispatch = Dispatch(handlers, self._peer, self._send, self._trace.answered)

    def _configured(self, settings: dict[str, Any]) -> None:
        """Obey the editor's settings, as far as they are the connection's."""
        if (level := settings.get("logLevel")) is None:
            return
        try:
            ask_level(self, str(level))
        except ConfigurationError as error:
            logger.warning("the editor's setting treadle.logLevel: %s", error.message)

    async def _shut_down(self, params: Empty, peer: Peer) -> None:
        await self._on_shutdown()
        await self.close()

    def _refuse(self, request: Request, error: TreadleError) -> None:
        refuse(request.id, error, self._send)

    def _notify(self, method: str, params: WireStruct | dict[str, Any]) -> None:
        self._send(encode_notification(method, params))


_cancel_decoder = msgspec.json.Decoder(CancelRequestParams)
_progress_decoder = msgspec.json.Decoder(ProgressCancelParams)
_trace_decoder = msgspec.json.Decoder(SetTraceParams)
_folders_decoder = msgspec.json.Decoder(DidChangeFoldersParams)
