"""pygls on our wire: its features and types, without its framing, its replies and its writer.

Owns where pygls ends and our wire begins. Refuses to know what our methods want of an editor.
Importing this costs a quarter of a second, so `tenant.py` does it in a worker thread, when an
editor first needs it.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from treadle.server.client_requests import ClientRequests
from treadle.server.editor.documents import Documents
from treadle.server.wire.envelope import Notification
from treadle.version import __version__

logger = logging.getLogger(__name__)

# A person reads and decides; after that the question has been left standing.
PERSON_SECONDS = 300.0

# What an editor answers by itself.
EDITOR_SECONDS = 10.0

# Everything else an editor answers without asking anybody.
_PERSON_ANSWERS = frozenset({types.WINDOW_SHOW_MESSAGE_REQUEST})


class EditorProtocol(LanguageServerProtocol):
    """One client's side of pygls: notifications in, notifications and questions out.

    Requests never reach it: our dispatch answers those, so that each has exactly one reply.
    """

    requests: ClientRequests
    send_notification: Callable[[str, Any], None]

    def take(self, notification: Notification) -> None:
        """Hand a notification to whoever handles it; what cannot be read is logged and dropped."""
        method = notification.method
        message_type = self.get_message_type(method)
        if message_type is None:
            return
        try:
            plain = {
                "jsonrpc": "2.0",
                "method": method,
                "params": msgspec.json.decode(notification.params),
            }
            message = self._converter.structure(plain, message_type)
        except Exception as error:
            # Only the kind of error: its words quote what the editor sent.
            logger.warning("%s could not be read (%s)", method, type(error).__name__)
            return
        contextvars.copy_context().run(self._handle_notification, method, message.params)
        # pygls keeps the future of each one for ever, so that it can be cancelled like a request.
        # Ours are done by now: what takes time, a handler hands to an owner.
        self._request_futures.clear()

    def notify(self, method: str, params: Any | None = None) -> None:
        """Send a notification."""
        self.send_notification(method, self.plain(params))

    async def send_request_async(
        self, method: str, params: Any | None = None, msg_id: str | int | None = None
    ) -> Any:
        """Ask the client; every question has a deadline.

        Returns:
            The answer, as LSP's type for it.

        Raises:
            ClientSaidNo, ClientGone, TimeoutError: there is none.
            ValueError: it has another shape than LSP gives it.
        """
        seconds = PERSON_SECONDS if method in _PERSON_ANSWERS else EDITOR_SECONDS
        raw = await self.requests.request(method, self.plain(params), seconds)
        try:
            answer = {"id": 0, "jsonrpc": "2.0", "result": msgspec.json.decode(raw)}
            result_type: Any = self.get_result_type(method)
            return self._converter.structure(answer, result_type).result
        except Exception as error:
            raise ValueError(f"the answer to {method} has another shape than LSP's") from error

    def send_request(self, *_: Any, **__: Any) -> Any:
        """Refuse pygls' other way of asking, which has no deadline."""
        raise NotImplementedError("use the method's _async form")

    def plain(self, value: Any) -> Any:
        """Return LSP's types as what JSON has, in camelCase."""
        return self._converter.unstructure(value)


class EditorServer(LanguageServer):
    """What pygls calls a server: one connection's documents, folders and questions."""

    protocol: EditorProtocol

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log that a notification could not be handled, without the words that may quote it."""
        logger.warning("a notification could not be handled (%s)", type(error).__name__)

    @property
    def documents(self) -> Documents:
        """The documents that are open in the editor."""
        workspace = self.workspace
        assert isinstance(workspace, Documents)
        return workspace


def language_server(
    initialize: bytes,
    position_encoding: str,
    requests: ClientRequests,
    notify: Callable[[str, Any], None],
) -> EditorServer:
    """Make the tenant of one connection.

    Args:
        initialize: the params that the client said hello with, as JSON.
        position_encoding: what they were answered with.
        requests: asks the client.
        notify: tells the client.
    """
    # Its own words quote what an editor sends, whole documents among it.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = EditorServer(
        "treadle", __version__, protocol_cls=EditorProtocol, converter_factory=_converter
    )
    protocol = server.protocol
    protocol.requests = requests
    protocol.send_notification = notify
    params = _initialize_params(msgspec.json.decode(initialize))
    protocol.client_capabilities = params.capabilities
    protocol._workspace = Documents(
        params.root_uri,
        types.TextDocumentSyncKind.Incremental,
        params.workspace_folders or [],
        position_encoding,
    )
    return server


# A converter for all of LSP's types takes longer to make than everything else here.
_converter = cache(default_converter)


def _initialize_params(plain: dict[str, Any]) -> types.InitializeParams:
    """Read what the client told of itself; capabilities that LSP does not know are no reason
    to have none of the rest.
    """
    try:
        read: types.InitializeParams = _converter().structure(plain, types.InitializeParams)
        return read
    except Exception as error:
        logger.warning("some of the client's capabilities are unknown (%s)", type(error).__name__)
    folders = [
        types.WorkspaceFolder(uri=folder["uri"], name=str(folder.get("name", "")))
        for folder in plain.get("workspaceFolders") or []
    ]
    return types.InitializeParams(
        capabilities=types.ClientCapabilities(),
        root_uri=plain.get("rootUri"),
        workspace_folders=folders,
    )
