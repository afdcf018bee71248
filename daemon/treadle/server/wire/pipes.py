"""A client at the other end of two descriptors: a reader thread and a writer thread."""

from __future__ import annotations

import asyncio

from treadle.server.wire.carrier import Told
from treadle.server.wire.reader import Reader
from treadle.server.wire.writer import Writer


class Pipes:
    """Carries frames over two descriptors, which stay their owner's; see `carrier.Carrier`.

    Args:
        in_fd: to read from.
        out_fd: to write to.
        told: who hears of what comes.

    Contract: made in the running loop.
    """

    def __init__(self, in_fd: int, out_fd: int, told: Told) -> None:
        loop = asyncio.get_running_loop()
        writer = Writer(out_fd, loop, told.on_low, told.on_broken)
        reader = Reader(in_fd, told.on_frames, told.on_end, loop)
        self._writer = writer
        self.write, self.drain, self.close = writer.write, writer.drain, writer.close
        self.start, self.stop = reader.start, reader.stop
        self.pause, self.resume = reader.pause, reader.resume

    @property
    def pending_bytes(self) -> int:
        """Bytes that are not written yet."""
        return self._writer.pending_bytes
