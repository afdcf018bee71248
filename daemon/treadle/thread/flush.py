"""Waiting for devices: turns that end together wait side by side, and no event loop waits.

Owns the threads that flush. Refuses to know what a file holds.

Measured on ext4 with 64 files (`tests/benchmarks/flushes.py`): two at once are through after
15 ms and one at a time after 12, while the event loop is away for 4 ms at most; four take 46 ms,
because their threads take the interpreter from each other, and the loop is away as long. One
`syncfs` for all takes 0.4 ms, but waits for whatever else was written there by anybody, and
Python does not have it. Two are as simple as one, and one dead file does not stop the others.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field

from treadle.thread import files

# More gain nothing on a healthy device, and on a dead one each is a thread that hangs.
FLUSHES_AT_ONCE = 2


class Flusher:
    """The flushes of one process, by device, in order of arrival.

    A device that hangs holds up nobody who waits for another one. Threads live only while there
    is something to flush, and keep no process from ending.
    """

    def __init__(self) -> None:
        self._devices: dict[int, _Device] = {}
        self._lock = threading.Lock()

    def flush(self, descriptor: int) -> Future[None]:
        """Have everything that was written to an open file until now put on its device.

        A file that is waiting for its turn already is flushed once for all who ask.

        Args:
            descriptor: the file's; it may be closed while the flush goes on.

        Returns:
            What is settled once it is on the device, or holds an OSError; cancelling it does
            nothing.

        Raises:
            OSError: the descriptor cannot be used.
        """
        status = os.fstat(descriptor)
        with self._lock:
            device = self._devices.setdefault(status.st_dev, _Device())
            flush = device.waiting.get(status.st_ino)
            if flush is None:
                flush = device.waiting[status.st_ino] = _Flush(os.dup(descriptor))
                flush.outcome.set_running_or_notify_cancel()
            if device.threads < min(FLUSHES_AT_ONCE, len(device.waiting) + device.busy):
                self._hire(status.st_dev, device)
        return flush.outcome

    def _hire(self, number: int, device: _Device) -> None:
        """Start one more thread for a device; without any, what waits fails."""
        device.threads += 1
        try:
            threading.Thread(
                target=self._work, args=(number,), name="treadle-flush", daemon=True
            ).start()
        except RuntimeError as error:
            device.threads -= 1
            if not device.threads:
                for flush in device.waiting.values():
                    os.close(flush.descriptor)
                device.waiting.clear()
                raise OSError(errno.EAGAIN, "no thread can be started") from error

    def _work(self, number: int) -> None:
        device = self._devices[number]
        while True:
            with self._lock:
                if not device.waiting:
                    device.threads -= 1
                    if not device.threads:
                        del self._devices[number]
                    return
                _, flush = device.waiting.popitem(last=False)
                device.busy += 1
            flush.run()
            with self._lock:
                device.busy -= 1


@dataclass(slots=True)
class _Flush:
    """One file that is to be flushed, by a descriptor of its own."""

    descriptor: int
    outcome: Future[None] = field(default_factory=Future)

    def run(self) -> None:
        try:
            try:
                files.sync(self.descriptor)
            finally:
                os.close(self.descriptor)
        except BaseException as error:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(None)


@dataclass(slots=True)
class _Device:
    """The flushes of one device: those that wait, by file, and how many run."""

    waiting: OrderedDict[int, _Flush] = field(default_factory=OrderedDict)
    threads: int = 0
    busy: int = 0


# Every thread of this process: sessions share the wait whoever opened them.
flusher = Flusher()
