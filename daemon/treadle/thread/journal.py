"""A thread's file while it is open: whether all that was said is in it, and on its device.

Owns that answer, and whom it is told. Refuses to know what a line says, and how lines are written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Self, TypeAlias

from treadle.errors import ConfigurationError, StorageDegraded
from treadle.thread.blobs import Blobs
from treadle.thread.device import Device
from treadle.thread.files import degraded
from treadle.thread.line_writer import LineWriter
from treadle.thread.lock import ThreadLock
from treadle.thread.tail import keep_lines_aside

logger = logging.getLogger(__name__)

Storage: TypeAlias = Literal["ok", "degraded"]


class Journal:
    """A thread's file, open for appending; while it cannot be written its lines wait in memory.

    Make one with `Journal.open`.

    Args:
        path: the thread's file.
        lock: the right to write it.
        blobs: the bytes that lines refer to, which are written before them.
        on_change: called when `storage` has changed, on the thread of `append`, `is_current`,
            `flush` or `recover`.

    Contract: `on_change` must neither raise nor block.
    """

    def __init__(
        self,
        path: Path,
        lock: ThreadLock,
        blobs: Blobs,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.on_change = on_change
        self._path = path
        self._writer = LineWriter(path, lock, blobs)
        self._tail = self._writer.tail
        self._device = Device(self._tail)
        self._told: Storage = "ok"

    @classmethod
    def open(
        cls,
        path: Path,
        lock: ThreadLock,
        blobs: Blobs,
        on_change: Callable[[], None] | None = None,
    ) -> Self:
        """Open a thread's file for appending, making it and its folders when they are missing.

        Where that cannot be done now, what is appended waits.

        Args:
            path: the thread's file.
            lock: the right to write it, taken again whenever it was lost; the caller lets it go.
            blobs: the bytes that lines refer to.
            on_change: called when `storage` has changed.

        Raises:
            ThreadUnreadable: it can never be opened.
            ThreadLocked: somebody else has the right to write it.
        """
        journal = cls(path, lock, blobs, on_change)
        try:
            journal._writer.attach()
        except StorageDegraded as error:
            journal._writer.failure = error
            journal._tell()
        return journal

    @property
    def storage(self) -> Storage:
        """Whether all that was appended is in the file, and what was flushed on its device."""
        is_ok = self._writer.failure is None and self._device.failure is None
        return "ok" if is_ok else "degraded"

    def append(self, line: bytes) -> None:
        """Write one line, or have it wait where it cannot be written now; `storage` tells which.

        A line that is written is with the operating system when this returns.

        Args:
            line: without its line end, and with none inside.
        """
        if self._writer.is_closed:
            raise ConfigurationError(f"the thread {self._path} was closed; open it again first")
        self._writer.add(line + b"\n")
        self._tell()

    def end_last_line(self) -> None:
        """Give the last line the line end that a kill kept from it."""
        self.append(b"")

    def set_tail_aside(self, offset: int) -> None:
        """Move what follows `offset` to the `.damaged` file; it is safe there before it is cut.

        Where that cannot be done now, it is done before anything else is written.
        """
        self._tail.aside_at = offset
        if self._writer.failure is None:
            self._writer.failure = degraded(self._path, OSError("it ends in half a line"))
        self._writer.catch_up()
        self._tell()

    def keep_lines_aside(self, places: Iterable[tuple[int, int]]) -> None:
        """Copy lines to the `.damaged` file, each with a line end; they stay in this one as well.

        Args:
            places: where each begins, and how long it is without its line end, in bytes.

        Raises:
            StorageDegraded: they could not be copied.
        """
        try:
            keep_lines_aside(self._path, places)
        except OSError as error:
            raise degraded(self._path, error) from error

    def mended(self) -> None:
        """Note that what waits now would be written again by whoever loads the file anew."""
        self._writer.mended()

    async def flush(self) -> None:
        """Wait until everything written is on the device; a cancel does not undo it.

        A device that fails, or does not answer within 30 seconds, makes the storage degraded;
        while it is, this waits for nothing, and `recover` does.
        """
        if self.storage == "ok":
            await self._device.flush()
            self._tell()

    async def recover(self) -> None:
        """Try again what failed, without holding up the event loop."""
        await asyncio.to_thread(self._writer.catch_up)
        if self._writer.failure is None and await asyncio.to_thread(self._renew):
            await self._device.flush()
        self._tell()

    def is_current(self) -> bool:
        """Tell whether what was loaded and appended is the thread; else the file is read anew.

        While something waits, memory is ahead of the file, and the thread goes on from there.

        Raises:
            ThreadLocked: the lock's file was deleted, and somebody else writes the thread.
            StorageDegraded: so much waits that no further turn may begin.
        """
        writer, tail = self._writer, self._tail
        if writer.is_closed:
            return False
        if tail.is_deleted():
            if writer.waits:
                logger.warning("%s was deleted, and with it what waited to be written", self._path)
            writer.forget()
            return False
        if not tail.is_out_of_reach():
            writer.require_lock()
        writer.catch_up()
        self._tell()
        if writer.failure is not None:
            writer.require_room(writer.failure)
            return True
        return tail.is_out_of_reach() or tail.is_as_we_left_it()

    def close(self, let_go: Callable[[], None] = lambda: None) -> None:
        """Write what waits if that works now, and close the file; a second call writes nothing.

        Args:
            let_go: called once nothing can be written any more; where the device hangs, that is
                when it answers. Contract: it must neither raise nor block.

        Raises:
            StorageDegraded: not all of it could be written; the message says where it lies.
        """
        self._writer.close(let_go)

    def _renew(self) -> bool:
        """Have the next flush put on the device what the last one could not."""
        if self._device.lacks_bytes:
            try:
                self._writer.change(self._tail.write_anew)
            except OSError as error:
                self._device.failure = error
                return False
        return True

    def _tell(self) -> None:
        if self.storage == self._told:
            return
        self._told = self.storage
        if self._writer.failure is not None:
            logger.warning("a thread goes on in memory: %s", self._writer.failure.message)
        elif self._device.failure is not None:
            message = degraded(self._path, self._device.failure).message
            logger.warning("a device does not keep a thread: %s", message)
        else:
            logger.info("all of %s is written", self._path)
        if self.on_change is not None:
            self.on_change()
