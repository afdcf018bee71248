"""Prompts from lines of standard input: how they are read, and which lines are one prompt.

Owns the bytes and the marks of a prompt of several lines. Refuses to know what is done with one.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import Iterator

# The line that opens and closes a prompt of several lines.
BLOCK_MARK = '"""'
# One read of a pipe or a terminal.
CHUNK_BYTES = 64 << 10


class Prompts:
    """Puts lines together to prompts."""

    def __init__(self) -> None:
        self._block: list[str] | None = None

    def take(self, line: str) -> tuple[str, bool] | None:
        """Take a line.

        Returns:
            The prompt that it completes, and whether it came as a block, in which a slash is
            nothing special; None where there is none yet.
        """
        if line.strip() == BLOCK_MARK:
            block, self._block = self._block, [] if self._block is None else None
            return None if block is None else ("\n".join(block), True)
        if self._block is None:
            return (line, False) if line.strip() else None
        self._block.append(line)
        return None

    @property
    def unfinished(self) -> str | None:
        """What stands in a block that nobody has closed; None outside of one."""
        return None if self._block is None else "\n".join(self._block)


class Lines:
    """The lines of standard input, each read when it is asked for, by a thread.

    Not by `sys.stdin`: a thread that waits in there would hold its lock over the process's end.
    """

    def __init__(self) -> None:
        self._wanted = threading.Semaphore(0)
        self._answer: asyncio.Future[str | None]
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._serve, name="chat-lines", daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line without its end, or None behind the last one."""
        self._answer = self._loop.create_future()
        self._wanted.release()
        return await self._answer

    def _serve(self) -> None:
        lines = _read_lines(sys.stdin.fileno(), sys.stdin.encoding)
        while True:
            self._wanted.acquire()
            line = next(lines, None)
            try:
                self._loop.call_soon_threadsafe(self._settle, line)
            except RuntimeError:
                return  # The loop is closed: nobody waits any more.

    def _settle(self, line: str | None) -> None:
        if not self._answer.done():
            self._answer.set_result(line)


def _read_lines(descriptor: int, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    pieces: list[str] = []
    while chunk := _read(descriptor):
        head, *more = decoder.decode(chunk).split("\n")
        pieces.append(head)
        for piece in more:
            yield "".join(pieces).removesuffix("\r")
            pieces = [piece]
    pieces.append(decoder.decode(b"", True))
    if last := "".join(pieces):
        yield last


def _read(descriptor: int) -> bytes:
    """Read some bytes; a terminal that is gone has ended."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:
        return b""
