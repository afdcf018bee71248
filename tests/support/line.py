"""A connection in the test's own loop: what is sent, and what came back, without a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.waiting import Waitable
from treadle.folders import Folders
from treadle.runtime.runtime import Runtime
from treadle.server.connection import Connection


class Line(Waitable):
    """A client of one `Connection` over a real runtime.

    Args:
        folder: where its data lies.
        initialize: whether to say hello first.
        open_runtime: gives another runtime than one on that folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        initialize: bool = True,
        open_runtime: Callable[[], Runtime] | None = None,
    ) -> None:
        super().__init__()
        self.folders = Folders(
            data=folder / "data",
            config=folder / "config",
            cache=folder / "cache",
            logs=folder / "logs",
        )
        self.log: list[dict[str, Any]] = []
        self.exits: list[int] = []
        self.pending_bytes = 0
        self.runtime = Runtime(self.folders)
        self.connection = Connection(
            self.folders,
            open_runtime or (lambda: self.runtime),
            send=self._take,
            pending_bytes=lambda: self.pending_bytes,
            on_shutdown=self.runtime.close,
            on_exit=self.exits.append,
        )
        if initialize:
            self.send(id="hello", method="initialize", params={"capabilities": {}})
            assert self.log.pop()["id"] == "hello"

    def send(self, **message: Any) -> None:
        """Send one message."""
        self.connection.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def replies(self, request_id: object) -> list[dict[str, Any]]:
        """Return what answered one id."""
        return [message for message in self.log if message.get("id") == request_id]

    async def reply(self, request_id: object) -> dict[str, Any]:
        """Wait for the one reply to a request."""
        await self.until(lambda: bool(self.replies(request_id)))
        (reply,) = self.replies(request_id)
        return reply

    async def end(self) -> None:
        """End as the daemon does."""
        await self.runtime.close()
        await self.connection.close()

    def _take(self, body: bytes) -> None:
        self.log.append(json.loads(body))
        self.changed()
