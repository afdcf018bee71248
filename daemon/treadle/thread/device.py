"""Whether what was written to a thread's file has reached its device.

Owns how long a flush is waited for, and how the last one ended. Refuses to know what was written,
and when it is to be flushed.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from treadle.thread.flush import flusher
from treadle.thread.tail import Tail

# A device that takes longer than this to flush is taken for dead; healthy ones take milliseconds.
FLUSH_TIMEOUT_SECONDS = 30.0


class Device:
    """The device behind the end of a thread's file.

    Args:
        tail: that end.

    Attributes:
        failure: of the last flush.
    """

    def __init__(self, tail: Tail) -> None:
        self.failure: OSError | None = None
        self._tail = tail

    async def flush(self) -> None:
        """Wait until everything written is on the device, or `failure` says why it is not."""
        if self._tail.descriptor is None:
            return
        size_bytes = self._tail.size_bytes
        try:
            flushing = flusher.flush(self._tail.descriptor)
            flushing.add_done_callback(self._note)
            async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                await asyncio.wrap_future(flushing)
            self._tail.flushed_bytes = size_bytes
        except OSError as error:  # TimeoutError is one
            self.failure = error

    @property
    def lacks_bytes(self) -> bool:
        """Whether the next flush would put on the device less than what was written."""
        return self.failure is not None and not isinstance(self.failure, TimeoutError)

    def _note(self, flushing: Future[None]) -> None:
        """Take in how a flush ended, whoever still waits for it."""
        error = flushing.exception()
        self.failure = error if isinstance(error, OSError) else None
