"""A file that is parsed again only when it has changed, and whose last good meaning is kept.

Refuses to know what is in it; blocks on the disk for a moment.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from treadle.agents.checks import FILE_LIMIT_BYTES
from treadle.errors import InvalidAgent

# Two writes within one tick of a file system's clock carry the same time; FAT's ticks are the
# longest still in use, but those where agents are edited by programs are some milliseconds.
_SETTLED_NS = 50_000_000

ParsedT = TypeVar("ParsedT")


class CachedFile(Generic[ParsedT]):
    """A file, parsed again only when it has changed."""

    def __init__(self, path: Path, parse: Callable[[Path, bytes], ParsedT]) -> None:
        self.path = path
        self._parse = parse
        self._known: _Known[ParsedT] = _Known(None, None, None)

    def get(self, default: ParsedT | None = None) -> ParsedT:
        """Return what the file means now, or last meant.

        Raises:
            InvalidAgent: it is broken and never was good.
        """
        good, error = self.read(default)
        if good is None:
            assert error is not None, "a file that is not there has a default or an error"
            # A new one each time: what is raised again and again gathers tracebacks.
            raise InvalidAgent(error.message, path=error.data["path"])
        return good

    def read(self, default: ParsedT | None = None) -> tuple[ParsedT | None, InvalidAgent | None]:
        """Return what the file means or last meant, and what is wrong with it.

        Args:
            default: what it means where there is no file; without one that is an error.
        """
        try:
            self._refresh()
        except FileNotFoundError as error:
            self._known = _Known(None, default, None)
            if default is None:
                return None, unreadable(self.path, error)
        except OSError as error:
            self._known = _Known(None, self._known.good, unreadable(self.path, error))
        return self._known.good, self._known.error

    def _refresh(self) -> None:
        """Parse the file if it does not look as it did.

        Raises:
            OSError: it cannot be read.
        """
        if self._known.looks is not None and _looks(self.path.stat()) == self._known.looks:
            return
        status, data = _read(self.path)
        settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
        looks = _looks(status) if settled else None
        try:
            self._known = _Known(looks, self._parse(self.path, data), None)
        except InvalidAgent as error:
            self._known = _Known(looks, self._known.good, error)


def unreadable(path: Path, error: OSError) -> InvalidAgent:
    """Make the error for a file or folder that cannot be read."""
    why = error.strerror or str(error)
    return InvalidAgent(f"{path.name} cannot be read: {why}", path=str(path))


@dataclass(frozen=True, slots=True)
class _Known(Generic[ParsedT]):
    """What is known of a file: what it looked like, what it last meant, what is wrong with it."""

    looks: tuple[int, int, int] | None
    good: ParsedT | None
    error: InvalidAgent | None


def _read(path: Path) -> tuple[os.stat_result, bytes]:
    """Read a file, one byte beyond what an agent may have at most.

    Raises:
        OSError: it cannot be read, or it is no regular file, which might never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")
    with path.open("rb") as file:
        return os.fstat(file.fileno()), file.read(FILE_LIMIT_BYTES + 1)


def _looks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_size, status.st_ino
