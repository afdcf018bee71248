"""What a command prints: the end of it in memory, and all of it in a file once that is too little.

Owns how much is kept, where it is cut, and that no secret is in it. Refuses to know what prints.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass

from treadle.secrets import SecretStream, known
from treadle.tools.commands.plain_text import PlainText
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.spill import Spill, SpillFile

# Kept free for what is said around it: how the command ended, where the rest is.
_WORDS_BYTES = 2 * 1024
# More than this is not shown at once, so the rest of it is in the file.
KEPT_BYTES = RESULT_LIMIT_BYTES - _WORDS_BYTES

# A cut falls on a line's beginning where one is as near as this.
_MOST_CUT_LINE_BYTES = 2000

# A model's words have to get through beside it.
PROGRESS_SECONDS = 0.5
# An editor shows it on one line.
_PROGRESS_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Printed:
    """Some of what a command has printed.

    Args:
        text: the end of what was asked for.
        end: how much had been printed by then, in bytes: where to go on.
        cut: what is missing before `text`, in words; empty where nothing is.
    """

    text: str
    end: int
    cut: str


class Capture:
    """Takes what a command prints, piece by piece; one task writes, anybody looks.

    Args:
        spill: where all of it is kept once it is too long to show.
        on_line: hears the last line, at a bounded rate. Contract: neither raises nor blocks.
    """

    def __init__(self, spill: Spill, on_line: Callable[[str], None]) -> None:
        self._spill = spill
        self._plain = PlainText()
        self._secrets = SecretStream(known())
        self._kept = bytearray()
        self._size_bytes = 0
        self._file: SpillFile | None = None
        self._ticker = _Ticker(on_line)

    async def take(self, data: bytes) -> None:
        """Take the next piece."""
        await self._keep(self._secrets.take(self._plain.take(data)))
        self._ticker.tell(self._last_line)

    async def end(self) -> None:
        """Take no more."""
        self._ticker.stop()
        await self._keep(self._secrets.take(self._plain.rest()) + self._secrets.rest())
        if self._file is not None:
            await self._file.close()

    def printed(self, since: int = 0) -> Printed:
        """Return what was printed behind `since`, a former `Printed.end`, as far as it is kept.

        A line that has not ended yet is there as it looks now, and comes again once it has.
        """
        begin = max(since, self._size_bytes - len(self._kept))
        text = bytes(self._kept[len(self._kept) - (self._size_bytes - begin) :])
        if begin > since:
            feed = text.find(b"\n", 0, _MOST_CUT_LINE_BYTES)
            text = text[feed + 1 :]
        cut_bytes = self._size_bytes - since - len(text)
        shown = text.decode(errors="ignore") + self._unfinished()
        return Printed(shown, self._size_bytes, self._cut(cut_bytes) if begin > since else "")

    async def _keep(self, text: str) -> None:
        """Keep the end of it in memory; from the first byte too many on, all of it in a file."""
        if not text:
            return
        data = text.encode(errors="replace")
        if self._size_bytes <= KEPT_BYTES < self._size_bytes + len(data):
            self._file = await self._spill.begin()
            if self._file is not None:
                await self._file.write(self._kept.decode())
        self._kept += data
        self._size_bytes += len(data)
        del self._kept[:-KEPT_BYTES]
        if self._file is not None:
            await self._file.write(text)

    def _last_line(self) -> str:
        """Return the last line that says something."""
        end = self._kept[-_MOST_CUT_LINE_BYTES:].decode(errors="ignore") + self._unfinished()
        lines = [line for line in end.split("\n") if line.strip()]
        return lines[-1].strip()[:_PROGRESS_CHARACTERS] if lines else ""

    def _unfinished(self) -> str:
        """Return what is held back, by whomever, as if nothing followed."""
        secrets = copy.copy(self._secrets)
        return secrets.take(self._plain.unfinished) + secrets.rest()

    def _cut(self, size_bytes: int) -> str:
        """Say what is missing, and where it is."""
        words = f"[{size_bytes:,} bytes before this are not shown"
        if self._file is None or not self._file.size_bytes:
            return f"{words}, and not kept]"
        if not self._file.is_whole:
            words += f"; the first {self._file.size_bytes:,} bytes of all"
            return f"{words} are in {self._file.path}, the others are not kept]"
        return f"{words}; all of it is in {self._file.path}]"


class _Ticker:
    """Tells the newest line, and no more often than every PROGRESS_SECONDS."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._told = ""
        self._rest: asyncio.TimerHandle | None = None
        self._line: Callable[[], str] = str

    def tell(self, line: Callable[[], str]) -> None:
        """Tell a line now, or what it has become once that is due."""
        self._line = line
        if self._rest is None:
            self._tell()

    def stop(self) -> None:
        """Tell nothing more."""
        if self._rest is not None:
            self._rest.cancel()

    def _tell(self) -> None:
        self._rest = None
        line = self._line()
        if line and line != self._told:
            self._told = line
            self._on_line(line)
            self._rest = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, self._tell)
