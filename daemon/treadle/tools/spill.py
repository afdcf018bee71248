"""What is too long to show: kept whole beside the threads, for the model to read in parts.

Owns those files and their names. Refuses to know what is in them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

from treadle.secrets import known

# Text of this form in place of a path names what was spilled; no file of a person's begins so.
SPILLED = "output://"

# Whatever one session keeps beyond this goes, the oldest first.
KEPT_FILES = 100


class Spill:
    """The spilled outputs of one session; they go when it is closed.

    Args:
        folder: where they lie, and nothing else; made when it is needed. None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._names: list[str] = []
        self._count = 0

    async def keep(self, text: str) -> str | None:
        """Keep a text.

        Returns:
            What to read it by, as a path; None where it cannot be kept.
        """
        if self._folder is None:
            return None
        self._count += 1
        name = f"{self._count}.txt"
        data = known().redact(text).encode(errors="replace")
        try:
            if self._count == 1:
                # What a kill left of an earlier life of the session.
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            await asyncio.to_thread(_write, self._folder / name, data)
        except OSError:
            return None
        self._names.append(name)
        while len(self._names) > KEPT_FILES:
            with contextlib.suppress(OSError):
                (self._folder / self._names.pop(0)).unlink(missing_ok=True)
        return SPILLED + name

    async def read(self, path: str) -> bytes | None:
        """Return what a path of `keep` names; None where it names nothing that is kept."""
        name = path.removeprefix(SPILLED)
        if self._folder is None or name == path or name not in self._names:
            return None
        try:
            return await asyncio.to_thread((self._folder / name).read_bytes)
        except OSError:
            return None

    async def close(self) -> None:
        """Delete all of it."""
        if self._folder is not None and self._names:
            self._names.clear()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
