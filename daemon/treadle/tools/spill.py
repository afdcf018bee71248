"""What is too long to show: kept whole beside the threads, for the model to read in parts.

Owns those files and their names. Refuses to know what is in them. What names one stays in the
thread when the file is gone, so a session's names have a mark that no other session's have.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO, TypeAlias

from treadle.sandbox.sandbox import READ_LIMIT_BYTES
from treadle.secrets import known

# Text of this form in place of a path names what was spilled; no file of a person's begins so.
SPILLED = "output://"

# Whatever one session keeps beyond this goes, the oldest first.
KEPT_FILES = 100

# One output is kept up to here: whatever is longer is too large to read whole, as any file is.
KEPT_FILE_BYTES = READ_LIMIT_BYTES


Elsewhere: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""Returns what a path names that is kept by somebody else; None where it names nothing."""


class Spill:
    """The spilled outputs of one session; they go when it is closed.

    Args:
        folder: where they lie, and nothing else; made when it is needed. None keeps nothing.
        mark: how their names begin.
        elsewhere: is asked for what is none of them.
    """

    def __init__(
        self, folder: Path | None = None, *, mark: str = "", elsewhere: Elsewhere | None = None
    ) -> None:
        self._folder = folder
        self._mark = mark
        self._elsewhere = elsewhere
        self._names: list[str] = []
        self._count = 0
        self._was_closed = False
        self._naming = asyncio.Lock()

    async def keep(self, text: str) -> str | None:
        """Keep a text.

        Returns:
            What to read it by, as a path; None where it cannot be kept.
        """
        file = await self.begin()
        if file is None:
            return None
        await file.write(known().redact(text))
        await file.close()
        return file.path if file.size_bytes else None

    async def begin(self) -> SpillFile | None:
        """Begin to keep a text that comes in pieces; whoever writes it closes it.

        Returns:
            Where to write it, redacted already; None where it cannot be kept.
        """
        if self._folder is None:
            return None
        async with self._naming:
            self._count += 1
            name = f"{self._mark}{self._count}.txt"
            try:
                if self._count == 1:
                    # What a kill left of an earlier life of the session.
                    await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
                file = await asyncio.to_thread(_open, self._folder / name)
            except OSError:
                return None
            self._names.append(name)
            while len(self._names) > KEPT_FILES:
                with contextlib.suppress(OSError):
                    (self._folder / self._names.pop(0)).unlink(missing_ok=True)
        return SpillFile(SPILLED + name, file)

    async def read(self, path: str) -> bytes | None:
        """Return what a path names, of `keep` or elsewhere; None where that is nothing."""
        name = path.removeprefix(SPILLED)
        if self._folder is None or name == path or name not in self._names:
            return await self._elsewhere(path) if self._elsewhere is not None else None
        try:
            return await asyncio.to_thread((self._folder / name).read_bytes)
        except OSError:
            return None

    async def close(self) -> None:
        """Delete all of it, and what a kill left of an earlier life of the session."""
        # A second time only what came since: by then the folder may be a later life's.
        if self._folder is not None and (self._names or not self._was_closed):
            self._was_closed = True
            self._names.clear()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class SpillFile:
    """A text on its way to the disk.

    Args:
        path: what it is read by.
        file: where it goes; ours from now on.

    Attributes:
        size_bytes: how much of it is there.
        is_whole: that is all that was written.
    """

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self.size_bytes = 0
        self.is_whole = True
        self._file = file

    async def write(self, text: str) -> None:
        """Write the next piece, as far as there is room for it; one writes at a time."""
        if not self.is_whole:
            return
        data = text.encode(errors="replace")
        room_bytes = KEPT_FILE_BYTES - self.size_bytes
        if len(data) > room_bytes:
            self.is_whole = False
            data = data[:room_bytes].decode(errors="ignore").encode()
        try:
            await asyncio.to_thread(self._write, data)
            self.size_bytes += len(data)
        except (OSError, ValueError):  # the disk is full, or it is closed already
            self.is_whole = False

    async def close(self) -> None:
        """Write no more; safe to call twice."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._file.close)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        # A model may read it while the command still prints.
        self._file.flush()


def _open(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")
