"""The sidecar: one client on standard input and output, from the first byte to a bounded end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from treadle.folders import Folders
from treadle.server.connection import Connection
from treadle.server.wire.framing import Frame, encode_frame
from treadle.server.wire.parent import watch_process
from treadle.server.wire.reader import Reader
from treadle.server.wire.writer import Writer

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

# While a client leaves more than this unread, its own requests wait: it is not going to read
# their answers either.
PAUSE_ABOVE_BYTES = 16 << 20

# A client that leaves this much unread has stopped reading for good; we stop, and say so.
GIVE_UP_ABOVE_BYTES = 128 << 20

# The end of a sidecar: interrupting turns has its own bounds, about 4 s in the worst case and
# milliseconds in the usual one; then the last replies get this long to be taken.
DRAIN_SECONDS = 1.0

# After all that the process ends, even if a thread hangs in a system call.
EXIT_SECONDS = 2.0


def serve_stdio(folders: Folders, in_fd: int, out_fd: int) -> int:
    """Serve one client until it ends, a signal comes, or its process is gone.

    Args:
        folders: where configuration, data and cache lie.
        in_fd: the descriptor to read frames from; ours to close.
        out_fd: the descriptor to write frames to; ours to close.

    Returns:
        The exit code: 0, or 1 when the client said `exit` without `shutdown`, or stopped reading.
    """
    return asyncio.run(_Sidecar(folders, in_fd, out_fd).run())


class _Sidecar:
    def __init__(self, folders: Folders, in_fd: int, out_fd: int) -> None:
        self._folders = folders
        self._in_fd = in_fd
        self._out_fd = out_fd
        self._paused = False
        self._runtime: Runtime | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._writer = Writer(
            self._out_fd, loop, on_low=self._client_reads_again, on_broken=lambda: self._end(0)
        )
        self._connection = Connection(
            self._folders,
            self._open_runtime,
            send=self._send,
            pending_bytes=lambda: self._writer.pending_bytes,
            on_shutdown=self._close_runtime,
            on_exit=self._end,
            on_client=self._watch_client,
        )
        self._reader = Reader(
            self._in_fd, on_frames=self._receive, on_end=lambda: self._end(0), loop=loop
        )
        self._stop_watching: Callable[[], None] = lambda: None
        with _signals(loop, lambda: self._end(0)):
            self._reader.start()
            code = await self._ended
            await self._close()
            _exit_even_if_a_thread_hangs(code)
        return code

    def _open_runtime(self) -> Runtime:
        if self._runtime is None:
            from treadle.runtime.runtime import Runtime

            self._runtime = Runtime(self._folders)
        return self._runtime

    async def _close_runtime(self) -> None:
        if self._runtime is not None:
            await self._runtime.close()

    def _receive(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._connection.receive(frame)

    def _send(self, body: bytes) -> None:
        self._writer.write(encode_frame(body))
        pending = self._writer.pending_bytes
        if pending > GIVE_UP_ABOVE_BYTES:
            logger.error("the client has left %d bytes unread; giving up", pending)
            self._end(1)
        elif pending > PAUSE_ABOVE_BYTES and not self._paused:
            self._paused = True
            self._reader.pause()

    def _client_reads_again(self) -> None:
        self._connection.client_reads_again()
        if self._paused:
            self._paused = False
            self._reader.resume()

    def _watch_client(self, process_id: int) -> None:
        self._stop_watching = watch_process(process_id, lambda: self._end(0))

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    async def _close(self) -> None:
        self._reader.stop()
        self._stop_watching()
        await self._close_runtime()
        await self._connection.close()
        await self._writer.drain(DRAIN_SECONDS)
        self._writer.close()


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, on_signal: Callable[[], None]) -> Iterator[None]:
    """Turn the signals that end a process into a bounded end; Windows has fewer of them."""
    names = [name for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_signal))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_even_if_a_thread_hangs(code: int) -> None:
    def leave() -> None:
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(EXIT_SECONDS, leave)
    timer.daemon = True
    timer.start()
