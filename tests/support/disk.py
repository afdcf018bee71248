"""A disk that fails when a test says so, at the one place where threads are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle.thread import files


class Disk:
    """Stands between this process's threads and the system.

    Attributes:
        error: the number of the error of every write, or None while the disk works.
        takes: how many bytes of a write that fails are written all the same.
        only: what the names of files that cannot be written end in; empty means all.
        can_cut: whether a file can be shortened.
        written: every write that worked, and to which file.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.error: int | None = None
        self.takes = 0
        self.only = ""
        self.can_cut = True
        self.written: list[tuple[int, bytes]] = []
        self._cut = os.ftruncate
        patch.setattr(files, "write", self.write)
        patch.setattr(os, "ftruncate", self.cut)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write, or take a part and then fail as the kernel does."""
        if self.error is None or not self._name(descriptor).endswith(self.only):
            self.written.append((descriptor, bytes(data)))
            return os.write(descriptor, data)
        if self.takes:
            taken, self.takes = data[: self.takes], 0
            return os.write(descriptor, taken)
        raise OSError(self.error, os.strerror(self.error))

    def cut(self, descriptor: int, size_bytes: int) -> None:
        """Shorten a file, or fail."""
        if not self.can_cut:
            raise OSError(5, "Input/output error")
        self._cut(descriptor, size_bytes)

    @staticmethod
    def _name(descriptor: int) -> str:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())

    @contextmanager
    def failing(self, error: int, takes: int = 0) -> Iterator[None]:
        """Fail every write of a `with` block."""
        self.error, self.takes = error, takes
        try:
            yield
        finally:
            self.error, self.takes = None, 0


def open_files(folder: Path) -> int:
    """How many files of a folder this process has open."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(entry.readlink())
        except OSError:
            continue
    return sum(link.is_relative_to(folder) for link in links)
