"""A file that is parsed again only when it has changed, and whose last good meaning is kept.

What it leads to when it is parsed, such as the files that it includes, is part of it.
Refuses to know what is in it; blocks on the disk for a moment.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from treadle.agents.checks import FILE_LIMIT_BYTES
from treadle.errors import InvalidAgent

# Two writes within one tick of a file system's clock carry the same time; FAT's ticks are the
# longest still in use, but those where agents are edited by programs are some milliseconds.
_SETTLED_NS = 50_000_000

ParsedT = TypeVar("ParsedT")

ReadFile: TypeAlias = Callable[[Path], bytes]
"""Reads a file that another one leads to. Contract: blocks for a moment; raises OSError."""


class CachedFile(Generic[ParsedT]):
    """A file, parsed again only when it, or a file that it leads to, has changed.

    Args:
        path: where it lies.
        parse: tells what it means, given what it holds and what reads the files it leads to.
            Contract: raises InvalidAgent alone.
    """

    def __init__(self, path: Path, parse: Callable[[Path, bytes, ReadFile], ParsedT]) -> None:
        self.path = path
        self._parse = parse
        self._known: _Known[ParsedT] = _Known({}, None, None)

    def get(self, default: ParsedT | None = None) -> ParsedT:
        """Return what the file means now, or last meant.

        Raises:
            InvalidAgent: it is broken and never was good.
        """
        return good_of(*self.read(default))

    def read(self, default: ParsedT | None = None) -> tuple[ParsedT | None, InvalidAgent | None]:
        """Return what the file means or last meant, and what is wrong with it.

        Args:
            default: what it means where there is no file; without one that is an error.
        """
        try:
            self._refresh()
        except FileNotFoundError as error:
            self._known = _Known({}, default, None)
            if default is None:
                return None, unreadable(self.path, error)
        except OSError as error:
            self._known = _Known({}, self._known.good, unreadable(self.path, error))
        return self._known.good, self._known.error

    def last(self) -> ParsedT | None:
        """Return what the file last meant, without a look at it."""
        return self._known.good

    def _refresh(self) -> None:
        """Parse the file if anything that it is made of is not as it was.

        Raises:
            OSError: it cannot be read.
        """
        files = self._known.files
        # What is wrong may lie elsewhere, such as a library that is missing: whoever has mended
        # that touches the file.
        touched_counts = self._known.error is not None
        if files and all(_is_as_it_was(path, files, touched_counts) for path in tuple(files)):
            return
        files = {}

        def read(path: Path) -> bytes:
            # Before it is read: one that cannot be read now may be there at the next look.
            files[path] = _Seen(None, None)
            files[path], data = _look(path)
            return data

        data = read(self.path)
        try:
            self._known = _Known(files, self._parse(self.path, data, read), None)
        except InvalidAgent as error:
            self._known = _Known(files, self._known.good, error)


def good_of(good: ParsedT | None, error: InvalidAgent | None) -> ParsedT:
    """Return what a file means or last meant.

    Raises:
        InvalidAgent: it is broken and never was good.
    """
    if good is None:
        assert error is not None, "a file that is not there has a default or an error"
        # A new one each time: what is raised again and again gathers tracebacks.
        raise InvalidAgent(error.message, path=error.data["path"])
    return good


def unreadable(path: Path, error: OSError) -> InvalidAgent:
    """Make the error for a file or folder that cannot be read."""
    why = error.strerror or str(error)
    return InvalidAgent(f"{path.name} cannot be read: {why}", path=str(path))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a file looked like, where that will show a change, and what its bytes were.

    Both are None for one that could not be read.
    """

    looks: tuple[int, ...] | None
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class _Known(Generic[ParsedT]):
    """What is known of a file: all that it is made of, what it last meant, what is wrong."""

    files: dict[Path, _Seen]
    good: ParsedT | None
    error: InvalidAgent | None


def _is_as_it_was(path: Path, files: dict[Path, _Seen], touched_counts: bool) -> bool:
    """Whether a file holds what it held; unless `touched_counts`, it may look different."""
    seen = files[path]
    try:
        if seen.looks is not None:
            if _looks(path.stat()) == seen.looks:
                return True
            if touched_counts:
                return False
        now, _ = _look(path)
    except OSError:
        return seen.digest is None
    if now.digest != seen.digest:
        return False
    files[path] = now
    return True


def _look(path: Path) -> tuple[_Seen, bytes]:
    """Read a file, one byte beyond what an agent may have at most.

    Raises:
        OSError: it cannot be read, or it is no regular file, which might never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")
    with path.open("rb") as file:
        status, data = os.fstat(file.fileno()), file.read(FILE_LIMIT_BYTES + 1)
    settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
    return _Seen(_looks(status) if settled else None, hashlib.sha256(data).digest()), data


def _looks(status: os.stat_result) -> tuple[int, ...]:
    # The last is the time at which anything of it changed, where the system has that.
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns
