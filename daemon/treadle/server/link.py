"""One client of a daemon: its connection, what carries it, and how it ends.

Owns how much a client may leave unread, when it has to wait, and the watch on its process.
Refuses to know whether the daemon has other clients, and what the end of this one means to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from treadle.errors import Overloaded
from treadle.folders import Folders
from treadle.server.connection import Connection
from treadle.server.home import Home
from treadle.server.wire.carrier import Carrier, Told
from treadle.server.wire.framing import Frame, encode_frame
from treadle.server.wire.parent import watch_process

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

# While a client leaves more than this unread, its own requests wait: it is not going to read
# their answers either.
PAUSE_ABOVE_BYTES = 16 << 20

# A client that leaves this much unread has stopped reading for good; it is given up, loudly.
GIVE_UP_ABOVE_BYTES = 128 << 20

# The last replies get this long to be taken by the client.
DRAIN_SECONDS = 1.0

# Ending a connection has bounds of its own, which together stay below this.
CONNECTION_SECONDS = 6.0


class Link:
    """One client, from its first byte to its end.

    Args:
        folders: where configuration, data and cache lie.
        open_runtime: gives the runtime, at the first request that leads there.
        carry: makes what carries its frames, told of who hears of them.
        home: what its daemon is, beside this client.
        refusal: answers all that is not about the daemon itself, where there is no room for it.
        on_shutdown: what `shutdown` means to the daemon; awaited before it is answered.
        on_end: called once with the exit code that this end asks for; `close` is then due.

    Contract: made in the running loop; `on_end` must neither raise nor block.
    """

    def __init__(
        self,
        folders: Folders,
        open_runtime: Callable[[], Runtime],
        carry: Callable[[Told], Carrier],
        *,
        home: Home,
        refusal: Overloaded | None = None,
        on_shutdown: Callable[[], Awaitable[None]],
        on_end: Callable[[int], None],
    ) -> None:
        self._on_end = on_end
        self._held_for: set[str] = set()
        self._has_ended = False
        self._stop_watching: Callable[[], None] = lambda: None
        self._carrier = carry(
            Told(
                on_frames=self._receive,
                on_end=lambda: self._end(0, "the client has closed our input"),
                on_low=self._client_reads_again,
                on_broken=lambda: self._end(0, "the client has closed our output"),
            )
        )
        self._connection = Connection(
            folders,
            open_runtime,
            send=self._send,
            pending_bytes=lambda: self._carrier.pending_bytes,
            home=home,
            refusal=refusal,
            on_shutdown=on_shutdown,
            on_exit=lambda code: self._end(code, "the client said exit"),
            on_client=self._watch_client,
            hold=lambda wait: self._hold("editor", wait),
        )

    def start(self) -> None:
        """Begin to hear the client."""
        self._carrier.start()

    def stop_hearing(self) -> None:
        """Take nothing more of the client's."""
        self._has_ended = True
        self._carrier.stop()
        self._stop_watching()

    async def close(self) -> None:
        """End what is in flight and let the client have its last replies, within bounds."""
        self.stop_hearing()
        await step("the connection", self._connection.close(), CONNECTION_SECONDS)
        await self._carrier.drain(DRAIN_SECONDS)
        self._carrier.close()

    def _receive(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._connection.receive(frame)

    def _send(self, body: bytes) -> None:
        # What waited before tells whether it reads; how long this frame is does not.
        pending = self._carrier.pending_bytes
        self._carrier.write(encode_frame(body))
        if pending > GIVE_UP_ABOVE_BYTES:
            self._give_up(pending)
        elif self._carrier.pending_bytes > PAUSE_ABOVE_BYTES:
            self._hold("output", True)

    def _hold(self, cause: str, wait: bool) -> None:
        """Read nothing more of the client while there is a cause to wait."""
        was_held = bool(self._held_for)
        (self._held_for.add if wait else self._held_for.discard)(cause)
        if self._held_for and not was_held:
            self._carrier.pause()
        elif was_held and not self._held_for:
            self._carrier.resume()

    def _give_up(self, pending_bytes: int) -> None:
        if not self._has_ended:
            logger.error("the client has left %d bytes unread; giving up", pending_bytes)
        self._end(1, "the client does not read")

    def _client_reads_again(self) -> None:
        self._connection.client_reads_again()
        self._hold("output", False)

    def _watch_client(self, process_id: int) -> None:
        self._stop_watching = watch_process(
            process_id, lambda: self._end(0, "the client's process is gone")
        )

    def _end(self, code: int, why: str) -> None:
        if not self._has_ended:
            self._has_ended = True
            logger.info("ending: %s", why)
            self._on_end(code)


async def step(what: str, closing: Awaitable[None], timeout_seconds: float) -> None:
    """Take one step of an end; one that fails or hangs keeps nobody from the next."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await closing
    except Exception:
        logger.exception("%s could not be closed in order", what)
