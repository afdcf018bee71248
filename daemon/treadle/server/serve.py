"""The sidecar: one client on standard input and output, from the first byte to a bounded end."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from treadle.folders import Folders
from treadle.process.waking import wake_on_signals
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

# Opening threads, flushing them and plain tools share these. asyncio's own number, six on two
# cores, would let a few tools that hang hold up every session.
WORKER_THREADS = 32

# Interrupting turns and closing models have bounds of their own, which together stay below this.
RUNTIME_SECONDS = 6.0

# A loop that code of somebody's keeps busy can not end in order. After a signal the process goes
# down all the same, later than every bound above together, and shows where each thread was.
HUNG_SECONDS = 20.0

# When all is done the process ends, even if a thread hangs in a system call.
EXIT_SECONDS = 2.0

# The last replies get this long to be taken by the client.
DRAIN_SECONDS = 1.0

# What a daemon ends with that could keep something nowhere: EX_IOERR of sysexits, which is neither
# an exit without `shutdown` nor a client that does not read.
LOST_CODE = 74

# Windows has fewer of them.
_ENDING_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]


def serve_stdio(folders: Folders, in_fd: int, out_fd: int) -> int:
    """Serve one client until it ends, a signal comes, or its process is gone.

    Args:
        folders: where configuration, data and cache lie.
        in_fd: the descriptor to read frames from; the system closes it with the process.
        out_fd: the descriptor to write frames to; the same.

    Returns:
        The exit code: 0, or 1 when the client said `exit` without `shutdown`, or stopped reading,
        and 74 where something that was said is lost, which standard error then names.
    """
    return asyncio.run(_Sidecar(folders, in_fd, out_fd).run())


class _Sidecar:
    def __init__(self, folders: Folders, in_fd: int, out_fd: int) -> None:
        self._folders = folders
        self._in_fd = in_fd
        self._out_fd = out_fd
        self._held_for: set[str] = set()
        self._runtime: Runtime | None = None
        self._stop_watching: Callable[[], None] = lambda: None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._writer = Writer(
            self._out_fd,
            loop,
            on_low=self._client_reads_again,
            on_broken=lambda: self._end(0, "the client has closed our output"),
        )
        self._connection = Connection(
            self._folders,
            self._open_runtime,
            send=self._send,
            pending_bytes=lambda: self._writer.pending_bytes,
            on_shutdown=self._close_runtime,
            on_exit=lambda code: self._end(code, "the client said exit"),
            on_client=self._watch_client,
            hold=lambda wait: self._hold("editor", wait),
        )
        self._reader = Reader(
            self._in_fd,
            on_frames=self._receive,
            on_end=lambda: self._end(0, "the client has closed our input"),
            loop=loop,
        )
        _catch_signals(loop, lambda: self._end(0, "a signal came"))
        self._reader.start()
        code = await self._ended
        began = loop.time()
        await self._close()
        if self._has_lost():
            code = LOST_CODE
        logger.info("ended with code %d after %.3f s of closing", code, loop.time() - began)
        _ignore_signals()
        _exit_even_if_a_thread_hangs(code)
        return code

    def _open_runtime(self) -> Runtime:
        if self._runtime is None:
            from concurrent.futures import ThreadPoolExecutor

            from treadle.runtime.runtime import Runtime

            workers = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="treadle-worker")
            asyncio.get_running_loop().set_default_executor(workers)
            self._runtime = Runtime(self._folders)
        return self._runtime

    async def _close_runtime(self) -> None:
        if self._runtime is not None:
            await self._runtime.close()

    def _has_lost(self) -> bool:
        """Whether anything that was said is kept nowhere; the log has told of it, or does now."""
        if self._runtime is None:
            return False
        from treadle.thread.leaving import losses

        for what in losses.at_stake:
            logger.critical("LOST: %s: the daemon ended before that was kept elsewhere", what)
        return bool(losses.told or losses.at_stake)

    def _receive(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._connection.receive(frame)

    def _send(self, body: bytes) -> None:
        # What waited before tells whether it reads; how long this frame is does not.
        pending = self._writer.pending_bytes
        self._writer.write(encode_frame(body))
        if pending > GIVE_UP_ABOVE_BYTES:
            self._give_up(pending)
        elif self._writer.pending_bytes > PAUSE_ABOVE_BYTES:
            self._hold("output", True)

    def _hold(self, cause: str, wait: bool) -> None:
        """Read nothing more of the client while there is a cause to wait."""
        was_held = bool(self._held_for)
        (self._held_for.add if wait else self._held_for.discard)(cause)
        if self._held_for and not was_held:
            self._reader.pause()
        elif was_held and not self._held_for:
            self._reader.resume()

    def _give_up(self, pending_bytes: int) -> None:
        if not self._ended.done():
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
        if not self._ended.done():
            logger.info("ending: %s", why)
            self._ended.set_result(code)

    async def _close(self) -> None:
        """Go down the ladder; a step that fails or hangs keeps nobody from the next."""
        self._reader.stop()
        self._stop_watching()
        await _step("the sessions", self._close_runtime(), RUNTIME_SECONDS)
        await _step("the connection", self._connection.close(), RUNTIME_SECONDS)
        await self._writer.drain(DRAIN_SECONDS)
        self._writer.close()


async def _step(what: str, closing: Awaitable[None], timeout_seconds: float) -> None:
    try:
        async with asyncio.timeout(timeout_seconds):
            await closing
    except Exception:
        logger.exception("%s could not be closed in order", what)


def _catch_signals(loop: asyncio.AbstractEventLoop, on_signal: Callable[[], None]) -> None:
    """Turn the signals that end a process into a bounded end.

    They stay caught: a second one, or one that comes late, must not cut that end short.
    """

    def caught(*_: object) -> None:
        # Without a descriptor to show it on there is no such guard, but an end in order.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
        # The loop is closed when all is done; then nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(on_signal)

    wake_on_signals(loop)
    for number in _ENDING_SIGNALS:
        signal.signal(number, caught)


def _ignore_signals() -> None:
    """Keep a late signal from turning a good end into a death.

    The interpreter takes its handlers down before it is gone; what is ignored stays ignored.
    """
    for number in _ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _exit_even_if_a_thread_hangs(code: int) -> None:
    timer = threading.Timer(EXIT_SECONDS, os._exit, [code])
    timer.daemon = True
    timer.start()
