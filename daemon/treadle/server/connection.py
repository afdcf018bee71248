"""A connection: LSP's lifecycle, and the way of each frame to dispatch and back.

Owns what may be said when. Refuses to know who frames and carries bodies, and what methods do.
`initialize` is answered before anything that a session needs is loaded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from treadle.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    NotInitialized,
    ProtocolError,
)
from treadle.folders import Folders
from treadle.protocol.base import Empty, WireStruct
from treadle.protocol.lifecycle import (
    CancelRequestParams,
    ClientOptions,
    ExperimentalCapabilities,
    InitializeParams,
    InitializeResult,
    ServerCapabilities,
    ServerInfo,
    TreadleCapabilities,
)
from treadle.protocol.methods import PROTOCOL_VERSION, is_request, own_names
from treadle.server.dispatch import Dispatch, Reply, refuse
from treadle.server.uri import folder_of
from treadle.server.wire.envelope import (
    EnvelopeError,
    Notification,
    Request,
    decode,
    decode_params,
    encode_notification,
)
from treadle.server.wire.framing import BadFrame
from treadle.version import __version__

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime
    from treadle.server.feed import Feed
    from treadle.server.peer import Peer

logger = logging.getLogger(__name__)

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
        on_shutdown: what `shutdown` means here; awaited before it is answered.
        on_exit: called with the exit code that `exit` asks for.
        on_client: called once with the `processId` of `initialize`, if there is one.
    """

    def __init__(
        self,
        folders: Folders,
        open_runtime: Callable[[], Runtime],
        *,
        send: Callable[[bytes], None],
        pending_bytes: Callable[[], int] = lambda: 0,
        on_shutdown: Callable[[], Awaitable[None]],
        on_exit: Callable[[int], None] = lambda _: None,
        on_client: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._folders = folders
        self._open_runtime = open_runtime
        self._send = send
        self._pending_bytes = pending_bytes
        self._on_shutdown = on_shutdown
        self._on_exit = on_exit
        self._on_client = on_client
        self._phase: Phase = "new"
        self._options = ClientOptions()
        self._default_cwd: Path | None = None
        self._feed: Feed | None = None
        self._peer: Peer | None = None
        self._dispatch: Dispatch[Peer] | None = None

    def receive(self, frame: bytes | BadFrame) -> None:
        """Take one frame of the client's; whatever it holds, the connection lives."""
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
        # A response is dropped: this build asks the client nothing, so none can be awaited.

    def client_reads_again(self) -> None:
        """Send what was held back for a slow client."""
        if self._feed is not None:
            self._feed.release_all()

    async def close(self) -> None:
        """End what is in flight, each request with its reply, and stop watching sessions."""
        if self._dispatch is not None:
            await self._dispatch.close(CLOSE_SECONDS)
        self.client_reads_again()
        if self._peer is not None:
            self._peer.leave()

    def _request(self, request: Request) -> None:
        if self._phase == "shut down":
            self._refuse(request, InvalidRequest("after shutdown only exit is taken"))
        elif request.method == "initialize":
            self._initialize(request)
        elif self._phase == "new":
            self._refuse(request, NotInitialized("the first request has to be initialize"))
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
        elif notification.method == "$/cancelRequest":
            self._cancel(notification)
        elif is_request(notification.method) and (dispatch := self._loaded()) is not None:
            dispatch.notification(notification)

    def _cancel(self, notification: Notification) -> None:
        try:
            params = decode_params(_cancel_decoder, notification.params)
        except ProtocolError as error:
            logger.info("a $/cancelRequest that names no request: %s", error)
            return
        if self._dispatch is not None:
            self._dispatch.cancel(params.id)

    def _initialize(self, request: Request) -> None:
        if self._phase != "new":
            self._refuse(request, InvalidRequest("initialize was sent already"))
            return
        try:
            params = decode_params(_initialize_decoder, request.params)
            self._options = _options_of(params)
        except ProtocolError as error:
            self._refuse(request, error)
            return
        self._phase = "ready"
        self._default_cwd = _working_folder(params)
        Reply(request.id, self._send).result(self._introduction())
        if params.process_id is not None:
            self._on_client(params.process_id)

    def _loaded(self) -> Dispatch[Peer] | None:
        """Return what answers requests, loaded at the first of them; None when that fails."""
        try:
            if self._dispatch is None:
                self._load()
        except Exception:
            logger.exception("what answers requests could not be loaded")
        return self._dispatch

    def _load(self) -> None:
        from treadle.server.feed import Feed
        from treadle.server.handlers import HANDLERS
        from treadle.server.peer import Peer

        opt_out = frozenset(self._options.opt_out)
        self._feed = Feed(self._notify, self._pending_bytes, opt_out)
        self._peer = Peer(self._open_runtime(), self._default_cwd, self._feed.take)
        handlers = {**HANDLERS, "shutdown": self._shut_down}
        self._dispatch = Dispatch(handlers, self._peer, self._send)

    def _introduction(self) -> InitializeResult:
        treadle = TreadleCapabilities(
            protocol_version=PROTOCOL_VERSION,
            methods=own_names("request"),
            notifications=own_names("event"),
            client_requests=[],
            data_dir=str(self._folders.data),
            pid=os.getpid(),
        )
        return InitializeResult(
            capabilities=ServerCapabilities(experimental=ExperimentalCapabilities(treadle=treadle)),
            server_info=ServerInfo(name="treadle", version=__version__),
        )

    async def _shut_down(self, params: Empty, peer: Peer) -> None:
        await self._on_shutdown()
        await self.close()

    def _refuse(self, request: Request, error: ProtocolError) -> None:
        refuse(request.id, error, self._send)

    def _notify(self, method: str, params: WireStruct) -> None:
        self._send(encode_notification(method, params))


_initialize_decoder = msgspec.json.Decoder(InitializeParams)
_options_decoder = msgspec.json.Decoder(ClientOptions)
_cancel_decoder = msgspec.json.Decoder(CancelRequestParams)


def _options_of(params: InitializeParams) -> ClientOptions:
    """Return what the client says to us in particular.

    Raises:
        InvalidParams: it speaks to us and is misunderstood; `path` says where.
    """
    given = params.treadle()
    if given is None:
        return ClientOptions()
    try:
        return decode_params(_options_decoder, msgspec.json.encode(given))
    except InvalidParams as error:
        inner = error.data["path"]
        path = f"capabilities.experimental.treadle{'.' if inner else ''}{inner}"
        raise InvalidParams(f"{path}: {error.message}", path=path) from None


def _working_folder(params: InitializeParams) -> Path | None:
    """Return the client's first workspace folder, else its root."""
    uris = [folder.uri for folder in params.workspace_folders or ()]
    if params.root_uri:
        uris.append(params.root_uri)
    return next((folder for uri in uris if (folder := folder_of(uri))), None)
