"""A daemon whose disk fails while there is a file `FAULT`: run by `test_full_disk.py`.

The file holds the name of an error. `ONLY_THREADS` is a full disk that has room elsewhere.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from treadle.cli.main import main
from treadle.thread import files

fault = Path(os.environ["FAULT"])
half_written: set[int] = set()


def failing_write(descriptor: int, data: bytes | memoryview) -> int:
    """Take ten bytes, then fail, as the kernel does where there is room for no more."""
    if not _fails(descriptor):
        return os.write(descriptor, data)
    if descriptor not in half_written:
        half_written.add(descriptor)
        return os.write(descriptor, data[:10])
    half_written.remove(descriptor)
    number = getattr(errno, fault.read_text(), errno.ENOSPC)
    raise OSError(number, os.strerror(number))


def _fails(descriptor: int) -> bool:
    if not fault.exists():
        return False
    path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    return fault.read_text() != "ONLY_THREADS" or "unsaved" not in path


files.write = failing_write

if __name__ == "__main__":
    raise SystemExit(main(["serve"]))
