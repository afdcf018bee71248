"""What a thread's end could not be written to: a file elsewhere, until the thread can be written.

Owns where such files lie, and how their lines come back in their place, once. Refuses to know
what the lines say. Whoever brings lines back holds the thread's lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from treadle.folders import find_folders
from treadle.thread.files import (
    make_folder,
    open_private,
    sync,
    sync_folder,
    write_whole,
)

# The folder in the cache folder, and in the system's temporary one where that is full as well.
UNSAVED_FOLDER = "unsaved"
# A thread is told from another one under its name by its beginning, which never changes.
BEGINNING_BYTES = 4096


class _Header(msgspec.Struct, frozen=True):
    """The first line of such a file: what the lines behind it belong to, and where.

    `beginning` is empty where the thread could not even be read.
    """

    thread: str
    size_bytes: int
    beginning: str


def keep(path: Path, size_bytes: int, lines: bytes) -> Path:
    """Keep lines that belong at the end of a thread's file.

    Args:
        path: the thread's file.
        size_bytes: where its last whole line ends; the lines belong behind it.
        lines: them, each with its line end.

    Returns:
        Where they lie, on the device.

    Raises:
        OSError: nowhere.
    """
    header = _Header(str(path), size_bytes, _beginning(path, size_bytes))
    failure = OSError("there is no folder for it")
    for folder in _folders():
        place = folder / f"{_name(path)}-{time.time_ns()}.jsonl"
        try:
            make_folder(folder)
            if _is_ours(folder):
                _write_new(place, msgspec.json.encode(header) + b"\n" + lines)
                return place
        except OSError as error:
            with contextlib.suppress(OSError):
                place.unlink()
            failure = error
    raise failure


def bring_back(path: Path) -> list[Path]:
    """Append to a thread's file what is kept of it elsewhere, each line once.

    Args:
        path: the thread's file; nobody else may be writing it.

    Returns:
        What lies there and belongs to an earlier thread of that name, which was deleted.

    Raises:
        OSError: something could not be appended; it stays where it is, and the file as it was.
    """
    strange = []
    for place in find(path):
        line, _, lines = place.read_bytes().partition(b"\n")
        try:
            header = _decoder.decode(line)
        except msgspec.MsgspecError:
            strange.append(place)
            continue
        if not _belongs(path, header):
            strange.append(place)
            continue
        _append(path, header.size_bytes, lines)
        place.unlink()
    return strange


def find(path: Path) -> list[Path]:
    """Return what is kept of a thread elsewhere, oldest first."""
    name = _name(path)
    folders = [folder for folder in _folders() if _is_ours(folder)]
    return [place for folder in folders for place in sorted(folder.glob(f"{name}-*.jsonl"))]


_decoder = msgspec.json.Decoder(_Header)


def _folders() -> list[Path]:
    user = "" if sys.platform == "win32" else f"-{os.geteuid()}"
    temporary = Path(tempfile.gettempdir(), f"treadle-{UNSAVED_FOLDER}{user}")
    return [find_folders().cache / UNSAVED_FOLDER, temporary]


def _name(path: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]


def _is_ours(folder: Path) -> bool:
    """Tell whether nobody else could have put anything there: others may write beside it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    if sys.platform == "win32":
        return stat.S_ISDIR(status.st_mode)
    is_private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_private


def _beginning(path: Path, size_bytes: int) -> str:
    """Return a digest of how a thread's file begins; empty where it cannot be read."""
    size_bytes = min(size_bytes, BEGINNING_BYTES)
    try:
        with path.open("rb") as file:
            data = file.read(size_bytes)
    except OSError:
        return ""
    return hashlib.sha256(data).hexdigest() if len(data) == size_bytes else ""


def _belongs(path: Path, header: _Header) -> bool:
    """Tell whether the thread at the path is the one whose lines are kept."""
    if not header.size_bytes:
        return True
    beginning = _beginning(path, header.size_bytes)
    return bool(beginning) and header.beginning in ("", beginning)


def _write_new(place: Path, data: bytes) -> None:
    descriptor, _made = open_private(place, os.O_WRONLY)
    try:
        write_whole(descriptor, data)
        sync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(place.parent)


def _append(path: Path, size_bytes: int, lines: bytes) -> None:
    """Append lines behind an offset, but for what of them stands there already.

    Raises:
        OSError: they could not be appended, and the file is as it was.
    """
    make_folder(path.parent)
    descriptor, _made = open_private(path, os.O_RDWR | os.O_APPEND)
    try:
        end = os.fstat(descriptor).st_size
        missing = _missing(descriptor, size_bytes, end, lines)
        try:
            write_whole(descriptor, missing)
            sync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def _missing(descriptor: int, size_bytes: int, end: int, lines: bytes) -> bytes:
    """Return what is to be appended so that the lines stand in the file once."""
    there = _read(descriptor, size_bytes, len(lines))
    if lines.startswith(there) and size_bytes + len(there) == end:
        # Nothing, or what an earlier try or a failed write has left.
        return lines[len(there) :]
    if there == lines:
        return b""
    if not size_bytes:
        # Somebody began the thread meanwhile, so that it has a first line.
        lines = lines.partition(b"\n")[2]
    return lines if _read(descriptor, end - 1, 1) == b"\n" else b"\n" + lines


def _read(descriptor: int, offset: int, size_bytes: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(size_bytes)
