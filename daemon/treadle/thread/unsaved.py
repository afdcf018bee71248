"""What a thread's end could not be written to: a file elsewhere, until the thread can be written.

Owns where such files lie, and how their lines come back in their place, once, behind the bytes
that they refer to. Refuses to know what the lines say. Whoever brings lines back holds the
thread's lock.

Such a file is a header in a line of its own, then the lines, then the bytes, each behind a line
with their name and size. The lines come first because they are worth more where room is short;
all of it is on the device before anybody is told of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from treadle.folders import find_folders
from treadle.thread.append_once import append_once
from treadle.thread.blobs import blobs_folder, is_named_by, write_blob
from treadle.thread.files import (
    make_folder,
    open_existing,
    open_ours,
    sync,
    sync_folder,
    write_whole,
)
from treadle.thread.obstacles import is_own_file

logger = logging.getLogger(__name__)

# The folder in the cache folder, and in the system's temporary one where that is full as well.
UNSAVED_FOLDER = "unsaved"
# A thread is told from another one under its name by its beginning, which never changes.
BEGINNING_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Kept:
    """Where lines lie, the names of the bytes that were lost, and why."""

    place: Path
    lost: list[str] = field(default_factory=list)
    failure: OSError | None = None


def keep(
    path: Path,
    size_bytes: int,
    lines: bytes,
    blobs: Mapping[str, bytes],
    *,
    is_readable: bool = True,
) -> Kept:
    """Keep lines that belong at the end of a thread's file, and bytes that they refer to.

    Args:
        path: the thread's file.
        size_bytes: where its last whole line ends; the lines belong behind it.
        lines: them, each with its line end.
        blobs: bytes that are not beside the thread yet, by the names of their files.
        is_readable: whether the thread's file may be looked at: one on a device that hangs is not.

    Returns:
        Where they lie, on the device, and which of the bytes had no room.

    Raises:
        OSError: the lines can be kept nowhere.
    """
    beginning = _beginning(path, size_bytes) if is_readable else ""
    head = msgspec.json.encode(_Header(str(path), size_bytes, beginning, len(lines))) + b"\n"
    best: Kept | None = None
    failure = OSError("there is no folder for it")
    for folder in _folders():
        place = folder / f"{_name(path)}-{time.time_ns()}.jsonl"
        try:
            make_folder(folder)
            if not _is_ours(folder):
                continue
            kept = _write_new(place, head + lines, blobs)
        except OSError as error:
            _unlink(place)
            failure = error
            continue
        if best is None or len(kept.lost) < len(best.lost):
            best, kept = kept, best or kept
        if kept is not best:
            _unlink(kept.place)
        if not best.lost:
            break
    if best is None:
        raise failure
    return best


def bring_back(path: Path) -> list[Path]:
    """Append to a thread's file what is kept of it elsewhere, each line once.

    Args:
        path: the thread's file; nobody else may be writing it.

    Returns:
        What lies there and belongs to an earlier thread of that name, which was deleted.

    Raises:
        OSError: something could not be brought back; it stays where it is, and the thread's file
            as it was.
    """
    strange = []
    for place in find(path):
        head, _, rest = place.read_bytes().partition(b"\n")
        try:
            header = _decoder.decode(head)
        except msgspec.MsgspecError:
            strange.append(place)
            continue
        if not _belongs(path, header):
            strange.append(place)
            continue
        make_folder(path.parent)
        for name, data in _blobs(rest[header.lines_bytes :]).items():
            write_blob(blobs_folder(path), name, data)
        append_once(path, header.size_bytes, rest[: header.lines_bytes])
        place.unlink()
    return strange


def find(path: Path) -> list[Path]:
    """Return what is kept of a thread elsewhere, oldest first."""
    name = _name(path)
    folders = [folder for folder in _folders() if _is_ours(folder)]
    places = [place for folder in folders for place in sorted(folder.glob(f"{name}-*.jsonl"))]
    return [place for place in places if is_own_file(place)]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Lines that lie elsewhere, as somebody sees them who only looks.

    Args:
        place: where.
        thread: the file that they are to come back to; None where that cannot be told.
        lines: how many.
        comes_back: opening the thread brings them back; else they belong to an earlier one of
            its name, which was deleted.
    """

    place: Path
    thread: Path | None
    lines: int = 0
    comes_back: bool = False

    @property
    def counted(self) -> str:
        """How many lines these are, in words."""
        return "1 line" if self.lines == 1 else f"{self.lines} lines"


def waiting_for(path: Path) -> list[Waiting]:
    """Return what opening a thread would bring back; changes nothing, and blocks.

    Args:
        path: the thread's file, which need not exist.
    """
    return [found for found in map(_look_at, find(path)) if found.comes_back]


def of_folder(data: Path) -> Iterator[Waiting]:
    """Yield what lies elsewhere of the threads of a data folder; changes nothing, and blocks.

    What does not say whose it is, is told as well.

    Args:
        data: the data folder; it need not exist.
    """
    folders = [folder for folder in _folders() if _is_ours(folder)]
    for place in (place for folder in folders for place in sorted(folder.glob("*.jsonl"))):
        if is_own_file(place):
            waiting = _look_at(place)
            if waiting.thread is None or _is_below(waiting.thread, data):
                yield waiting


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _look_at(place: Path) -> Waiting:
    try:
        head, _, rest = place.read_bytes().partition(b"\n")
        header = _decoder.decode(head)
    except (OSError, msgspec.MsgspecError):
        return Waiting(place, None)
    thread = Path(header.thread)
    # It is told by where its file really lies, which may be elsewhere by now.
    is_found = place.name.startswith(_name(thread))
    lines = rest[: header.lines_bytes].count(b"\n")
    return Waiting(place, thread, lines, is_found and _belongs(thread, header))


class _Header(msgspec.Struct, frozen=True):
    """The first line of such a file: what the lines behind it belong to, and where.

    `beginning` is empty where the thread could not even be read.
    """

    thread: str
    size_bytes: int
    beginning: str
    lines_bytes: int


_decoder = msgspec.json.Decoder(_Header)
# The line before bytes: their name and their size.
_blob_line = msgspec.json.Decoder(tuple[str, int])


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
        # A pipe may have taken its place, and would hold up whoever opens it for ever.
        with os.fdopen(open_existing(path, os.O_RDONLY), "rb") as file:
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


def _write_new(place: Path, head: bytes, blobs: Mapping[str, bytes]) -> Kept:
    """Write what is to be kept, with as many of the bytes as there is room for.

    Raises:
        OSError: not even the lines could be written.
    """
    kept = Kept(place)
    descriptor, _made = open_ours(place, os.O_WRONLY)
    try:
        write_whole(descriptor, head)
        for name, data in blobs.items():
            end = os.lseek(descriptor, 0, os.SEEK_CUR)
            try:
                write_whole(descriptor, msgspec.json.encode((name, len(data))) + b"\n")
                write_whole(descriptor, data)
            except OSError as error:
                kept = Kept(place, [*kept.lost, name], error)
                os.ftruncate(descriptor, end)
                os.lseek(descriptor, end, os.SEEK_SET)
        sync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(place.parent)
    return kept


def _blobs(rest: bytes) -> dict[str, bytes]:
    """Read the bytes of such a file, as far as they are whole."""
    found: dict[str, bytes] = {}
    file = io.BytesIO(rest)
    while line := file.readline():
        try:
            name, size_bytes = _blob_line.decode(line)
        except msgspec.MsgspecError:
            break
        data = file.read(max(0, size_bytes))
        if is_named_by(name, data):
            found[name] = data
        else:
            logger.warning("what was kept of an attachment is damaged: %s", name)
    return found


def _unlink(place: Path) -> None:
    with contextlib.suppress(OSError):
        place.unlink()
