"""An editor's own protocol on a connection, bound to pygls when it is first needed.

Owns that order is kept while pygls loads, and what our methods may ask of an editor.
Refuses to know LSP's types: they live behind `language_server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.protocol.editor import ShowMessageParams
from treadle.server.asides import Asides
from treadle.server.client_requests import NO_ANSWER, ClientRequests
from treadle.server.introduction import Hello
from treadle.server.wire.envelope import Notification

if TYPE_CHECKING:
    from treadle.server.editor.language_server import EditorServer

logger = logging.getLogger(__name__)

# What an editor may send before it is asked to wait: a few big files, while pygls loads.
PAUSE_ABOVE_BYTES = 16 << 20

# What a notification costs beside its params, so that many that say nothing are bounded too.
OVERHEAD_BYTES = 256

# A second on a busy machine; what takes this long, such as a disk that is gone, never ends.
LOAD_SECONDS = 30.0

# A close waits this long for an import that cannot be cancelled; the thread goes on without us.
CLOSE_SECONDS = 1.0

# Notifications that are taken in one go before others get their turn.
SLICE = 64


class Editor:
    """One client's editor.

    Args:
        hello: what it said of itself.
        requests: asks it.
        notify: tells it.
        hold: called with True when it has to wait before it sends more, with False after that.
        configured: called with the section `treadle` of its settings whenever those change.
    """

    def __init__(
        self,
        *,
        hello: Hello,
        requests: ClientRequests,
        notify: Callable[[str, Any], None],
        hold: Callable[[bool], None],
        configured: Callable[[dict[str, Any]], None],
    ) -> None:
        self._hello = hello
        self._requests = requests
        self._notify = notify
        self._hold = hold
        self._configured = configured
        self._waiting: deque[Notification] = deque()
        self._waiting_bytes = 0
        self._server: EditorServer | None = None
        self._work: asyncio.Task[Any] | None = None
        self._asides = Asides()
        self._asking: asyncio.Task[Any] | None = None
        self._settings_are_old = False
        self._has_told = asyncio.Event()
        self._closed = False

    def can(self, *path: str) -> bool:
        """Whether it declared a capability, such as `can("window", "showDocument", "support")`."""
        found: Any = self._hello.capabilities
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return bool(found)

    def take(self, notification: Notification) -> None:
        """Take one of its notifications, in order; never blocks."""
        if self._closed:
            return
        if self._server is not None and self._work is None:
            self._server.protocol.take(notification)
            self._has_told.set()
            return
        self._waiting.append(notification)
        self._waiting_bytes += len(notification.params) + OVERHEAD_BYTES
        if self._waiting_bytes > PAUSE_ABOVE_BYTES:
            self._hold(True)
        if self._work is None:
            self._work = self._asides.start(self._run())

    async def opened(self) -> EditorServer | None:
        """Return pygls once all that was sent so far is taken; None where nothing is open."""
        # An editor that never sent anything of its own has opened nothing.
        is_bound = self._server is not None or self._work is not None
        return await self._ready() if is_bound else None

    async def text_of(self, uri: str) -> str | None:
        """Return an open document's text, as the editor shows it; None when it is not open."""
        server = await self.opened()
        return server.documents.text_of(uri) if server else None

    async def next_told(self) -> None:
        """Wait until it sends something more of its own."""
        self._has_told.clear()
        await self._has_told.wait()

    def show_message(self, text: str) -> None:
        """Show a text to the person; its first lines matter."""
        self._notify("window/showMessage", ShowMessageParams(type=3, message=text))

    async def show_document(self, path: Path) -> bool:
        """Open a file for the person to read; tell whether that was done."""
        server = await self._ready()
        if server is None:
            return False
        from lsprotocol import types

        with _unanswered_told("a document could not be shown"):
            shown = await server.window_show_document_async(
                types.ShowDocumentParams(uri=path.as_uri(), take_focus=True)
            )
            return shown.success
        return False

    async def choose(self, question: str, choices: list[str]) -> str | None:
        """Ask the person to choose; None when they do not, or cannot be asked."""
        server = await self._ready() if self.can("window") else None
        if server is None:
            return None
        from lsprotocol import types

        with _unanswered_told("nobody chose"):
            chosen = await server.window_show_message_request_async(
                types.ShowMessageRequestParams(
                    type=types.MessageType.Info,
                    message=question,
                    actions=[types.MessageActionItem(title=choice) for choice in choices],
                )
            )
            return chosen.title if chosen and chosen.title in choices else None
        return None

    async def settings(self) -> dict[str, Any]:
        """Return the section `treadle` of its settings; empty when it has none or does not tell."""
        server = await self._ready() if self.can("workspace", "configuration") else None
        if server is None:
            return {}
        from lsprotocol import types

        with _unanswered_told("the editor's settings could not be had"):
            answer = await server.workspace_configuration_async(
                types.ConfigurationParams(items=[types.ConfigurationItem(section="treadle")])
            )
            return answer[0] if answer and isinstance(answer[0], dict) else {}
        return {}

    async def begin_progress(self, token: str) -> bool:
        """Ask it to show the progress that is going to be told under `token`."""
        if not self.can("window", "workDoneProgress") or (server := await self._ready()) is None:
            return False
        from lsprotocol import types

        with _unanswered_told("progress will not be shown"):
            await server.window_work_done_progress_create_async(
                types.WorkDoneProgressCreateParams(token=token)
            )
            return True
        return False

    async def close(self) -> None:
        """Stop taking notifications; what is on its way in is dropped."""
        self._closed = True
        self._waiting.clear()
        await self._asides.close(CLOSE_SECONDS)

    async def _ready(self) -> EditorServer | None:
        """Return pygls once everything sent so far is taken; None when it cannot be had."""
        if self._closed:
            return None
        if self._work is None and self._server is None:
            self._work = self._asides.start(self._run())
        if self._work is not None:
            await asyncio.wait({self._work})
        return self._server

    async def _run(self) -> None:
        """Bind pygls if need be, then hand it what waits; whatever happens, nobody is held up."""
        try:
            if self._server is None:
                async with asyncio.timeout(LOAD_SECONDS):
                    self._server = await self._bound()
            while self._waiting:
                for _ in range(min(SLICE, len(self._waiting))):
                    self._server.protocol.take(self._waiting.popleft())
                await asyncio.sleep(0)
        except Exception:
            logger.exception("LSP's own features are not to be had on this connection")
            self._closed = True
            self._waiting.clear()
        finally:
            self._work = None
            self._waiting_bytes = 0
            self._hold(False)
            self._has_told.set()

    async def _bound(self) -> EditorServer:
        from lsprotocol import types

        from treadle.server.editor.saving import look

        server = await asyncio.to_thread(self._load)
        server.documents.on_unknown = lambda document: self._asides.start(look(document))

        @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
        def _changed(params: types.DidChangeConfigurationParams) -> None:
            self._take_settings(params.settings)

        @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
        def _saved(params: types.DidSaveTextDocumentParams) -> None:
            server.documents.saved(params.text_document.uri)

        if self.can("workspace", "didChangeConfiguration", "dynamicRegistration"):
            self._asides.start(self._register(server, types.WORKSPACE_DID_CHANGE_CONFIGURATION))
        return server

    def _load(self) -> EditorServer:
        from treadle.server.editor.language_server import language_server

        return language_server(
            self._hello.raw, self._hello.position_encoding, self._requests, self._notify
        )

    def _take_settings(self, pushed: Any) -> None:
        """Hand on the settings that were sent along, or ask for them."""
        section = pushed.get("treadle") if isinstance(pushed, dict) else None
        if isinstance(section, dict):
            self._configured(section)
            return
        self._settings_are_old = True
        if self._asking is None or self._asking.done():
            self._asking = self._asides.start(self._ask_for_settings())

    async def _ask_for_settings(self) -> None:
        """Ask, and once more when they have changed meanwhile: an editor may tell of every key."""
        while self._settings_are_old:
            self._settings_are_old = False
            self._configured(await self.settings())

    async def _register(self, server: EditorServer, method: str) -> None:
        """Ask to be told of what the editor tells only those who ask."""
        from lsprotocol import types

        registration = types.Registration(id=method, method=method)
        with _unanswered_told(f"the editor will not tell of {method}"):
            await server.client_register_capability_async(
                types.RegistrationParams(registrations=[registration])
            )


@contextlib.contextmanager
def _unanswered_told(what: str) -> Iterator[None]:
    """Log `what` where the block asks the editor in vain, and go on behind it."""
    try:
        yield
    except (*NO_ANSWER, ValueError) as error:
        logger.info("%s: %s", what, error)
