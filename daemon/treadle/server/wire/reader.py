"""The thread that reads the client.

Owns reading a descriptor and a bound on what was read and not yet taken by the loop.
Refuses to know what a frame says. A thread, because the loop can wait neither for a regular file
nor, on Windows, for a pipe.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TypeAlias

from treadle.server.wire.framing import Frame, FrameParser
from treadle.server.wire.readiness import Readiness

# A pipe holds this much on Linux; a larger read costs a memory mapping each time.
READ_BYTES = 64 << 10

# What may wait for the loop before the thread stops reading and the client feels it. A single
# larger frame is still taken.
MAX_UNDELIVERED_BYTES = 4 << 20

# What a frame costs beside its bytes, so that millions of empty ones are bounded too.
FRAME_OVERHEAD_BYTES = 128

OnFrames: TypeAlias = Callable[[list[Frame]], None]
"""Told of the frames that have come, in order, in the loop.

Contract: must not raise or block; never called with an empty list, while paused or after a stop.
"""

OnEnd: TypeAlias = Callable[[], None]
"""Told once, in the loop, that the input ended or broke; every frame was delivered before.

Contract: must not raise or block; never called after a stop.
"""


class Reader:
    """Reads frames from a descriptor, which stays its owner's to close after `stop`."""

    def __init__(
        self, fd: int, on_frames: OnFrames, on_end: OnEnd, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._fd = fd
        self._on_frames = on_frames
        self._on_end = on_end
        self._loop = loop
        self._parser = FrameParser()
        self._changed = threading.Condition()
        self._frames: list[Frame] = []
        self._undelivered_bytes = 0
        self._is_paused = False
        self._is_ended = False
        self._is_stopped = False
        self._is_scheduled = False
        self._readiness: Readiness | None = None

    def start(self) -> None:
        """Start reading. The thread never keeps the process alive."""
        self._readiness = Readiness(self._fd, for_writing=False)
        threading.Thread(target=self._run, name="treadle-reader", daemon=True).start()

    def pause(self) -> None:
        """Deliver nothing from now on; at most one more read is taken from the client."""
        with self._changed:
            self._is_paused = True

    def resume(self) -> None:
        """Go on, first with what had come before the pause."""
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()
            self._schedule()

    def stop(self) -> None:
        """Deliver nothing ever again, and end the thread (on Windows: after its next read)."""
        with self._changed:
            self._is_stopped = True
            self._frames.clear()
            self._changed.notify_all()
        if self._readiness is not None:
            self._readiness.interrupt()

    def _run(self) -> None:
        assert self._readiness is not None
        try:
            while self._may_read():
                self._readiness.wait()
                if not self._read():
                    break
        finally:
            self._readiness.close()
            with self._changed:
                self._is_ended = True
                self._schedule()

    def _may_read(self) -> bool:
        """Wait while the loop has enough to do; False when there is nothing to read for."""
        with self._changed:
            # Unbounded on purpose: a pause lasts as long as its owner wants, and `stop` ends it.
            self._changed.wait_for(
                lambda: (
                    self._is_stopped
                    or (not self._is_paused and self._undelivered_bytes < MAX_UNDELIVERED_BYTES)
                )
            )
            return not self._is_stopped

    def _read(self) -> bool:
        """Read once; False at the end of the input."""
        if self._is_stopped:
            return False
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return True  # A parent may share a descriptor that does not block; we came too early.
        except OSError:
            return False  # A terminal that hung up, a connection that was reset: an end as well.
        if not data:
            return False
        if frames := self._parser.feed(data):
            with self._changed:
                self._frames += frames
                self._undelivered_bytes += sum(map(_cost_bytes, frames))
                self._schedule()
        return True

    def _schedule(self) -> None:
        """Have the loop take what is there. Called with the lock held."""
        if self._is_scheduled or self._is_stopped or self._is_paused:
            return
        try:
            self._loop.call_soon_threadsafe(self._deliver)
            self._is_scheduled = True
        except RuntimeError:
            self._is_stopped = True  # The loop is closed, so nobody is left to read for.

    def _deliver(self) -> None:
        with self._changed:
            self._is_scheduled = False
            if self._is_paused or self._is_stopped:
                return
            frames, self._frames = self._frames, []
            self._undelivered_bytes = 0
            self._changed.notify_all()
        try:
            if frames:
                self._on_frames(frames)
        finally:
            self._end_if_last()

    def _end_if_last(self) -> None:
        with self._changed:
            is_last = self._is_ended and not (self._frames or self._is_paused or self._is_stopped)
            self._is_stopped |= is_last
        if is_last:
            self._on_end()


def _cost_bytes(frame: Frame) -> int:
    size_bytes = len(frame) if isinstance(frame, bytes) else len(frame.message)
    return size_bytes + FRAME_OVERHEAD_BYTES
