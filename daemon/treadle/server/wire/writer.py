"""The thread that writes to the client.

Owns the order of what is written, its bytes until they are gone, and a client that went away.
Refuses to know what a frame says; who writes looks at `pending_bytes` and waits for `on_low`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

from treadle.server.wire.readiness import Readiness

# Above this, a writer of events should hold back: about what a pipe and a busy editor take up
# without being late.
HIGH_WATER_BYTES = 1 << 20

# Below this, it may go on: far enough from the other mark that the two do not alternate.
LOW_WATER_BYTES = 256 << 10

# Frames are joined up to this size. A pipe takes 64 KiB at a time, so more would only be copied.
JOIN_BYTES = 64 << 10

OnLow: TypeAlias = Callable[[], None]
"""Told in the loop, once, that what waits fell to LOW_WATER_BYTES after it had reached the high.

Contract: must not raise or block; may write.
"""

OnBroken: TypeAlias = Callable[[], None]
"""Told in the loop, once, that the client can not be written to any more.

Contract: must not raise or block; never called after a close.
"""


class Writer:
    """Writes frames to a descriptor, which stays its owner's to close once the thread has ended.

    Contract: every method is called in the loop, and none of them blocks it.
    """

    def __init__(
        self, fd: int, loop: asyncio.AbstractEventLoop, on_low: OnLow, on_broken: OnBroken
    ) -> None:
        self._fd = fd
        self._loop = loop
        self._on_low = on_low
        self._on_broken = on_broken
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending_bytes = 0
        self._is_high = False
        self._is_broken = False
        self._is_closed = False
        self._drains: list[asyncio.Future[None]] = []
        self._readiness = Readiness(fd, for_writing=True)
        threading.Thread(target=self._run, name="treadle-writer", daemon=True).start()

    @property
    def pending_bytes(self) -> int:
        """Bytes that were given and are not yet written; 0 once the client is gone."""
        return 0 if self._is_broken else self._pending_bytes

    def write(self, frame: bytes) -> None:
        """Queue a frame; dropped when the client is gone.

        There is no bound here: who writes looks at `pending_bytes`, and gives the client up.
        """
        if self._is_broken or self._is_closed or not frame:
            return
        with self._lock:
            self._pending_bytes += len(frame)
            self._is_high |= self._pending_bytes >= HIGH_WATER_BYTES
        self._queue.put(frame)

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait until everything is written, the client is gone, or the time is over.

        Returns:
            Whether everything was written.
        """
        drained = self._loop.create_future()
        with self._lock:
            if self._pending_bytes and not (self._is_broken or self._is_closed):
                self._drains.append(drained)
            else:
                drained.set_result(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await drained
        return self._pending_bytes == 0 and not self._is_broken

    def close(self) -> None:
        """Write nothing more; what still waits is lost. The thread ends after its current write."""
        self._is_closed = True
        self._stop_thread()
        self._settle_drains()

    def _run(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                self._write_all(batch)
        except OSError:
            self._tell(self._break)
        finally:
            self._readiness.close()

    def _next_batch(self) -> bytes | None:
        """Wait for a frame and join what else is there; None when the thread is to end."""
        # Unbounded on purpose: a client may be silent for days, and `close` ends the wait.
        frames = [self._queue.get()]
        size_bytes = len(frames[0] or b"")
        with contextlib.suppress(queue.Empty):
            while frames[-1] is not None and size_bytes < JOIN_BYTES:
                frames.append(self._queue.get_nowait())
                size_bytes += len(frames[-1] or b"")
        if self._is_over or None in frames:
            return None
        return frames[0] if len(frames) == 1 else b"".join(filter(None, frames))

    def _write_all(self, batch: bytes) -> None:
        rest = memoryview(batch)
        while rest and not self._is_over:
            try:
                count = os.write(self._fd, rest)
            except BlockingIOError:
                # A parent may share a descriptor that does not block, and it is full.
                self._readiness.wait()
            else:
                rest = rest[count:]
                self._written(count)

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._is_broken

    def _written(self, size_bytes: int) -> None:
        with self._lock:
            self._pending_bytes -= size_bytes
            is_low = self._is_high and self._pending_bytes <= LOW_WATER_BYTES
            self._is_high &= not is_low
            is_drained = bool(self._drains) and not self._pending_bytes
        if is_low:
            self._tell(self._on_low)
        if is_drained:
            self._tell(self._settle_drains)

    def _tell(self, callback: Callable[[], None]) -> None:
        # A closed loop has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def _break(self) -> None:
        """Give the client up. In the loop, so it is told once and never after a close."""
        if self._is_broken or self._is_closed:
            return
        self._is_broken = True
        self._stop_thread()
        self._settle_drains()
        self._loop.call_soon(self._on_broken)

    def _stop_thread(self) -> None:
        self._queue.put(None)
        self._readiness.interrupt()

    def _settle_drains(self) -> None:
        with self._lock:
            drains, self._drains = self._drains, []
        for drained in drains:
            if not drained.done():
                drained.set_result(None)
