"""The lines of a thread file: one after the other, however long, and what each of them is.

Owns how a file is opened to be read, where a line ends, and how much of it is held in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from treadle.thread.files import check_regular, unusable
from treadle.thread.message import LINE_START, Message, decode_line
from treadle.thread.records import RecordLine, decode_record

# Files are read in pieces of this size: larger ones are no faster.
READ_BYTES = 1 << 18
# Half of SHA-256: two bad lines that meet are out of reach.
DIGEST_BYTES = 16
# Four times the longest answer of a model and the longest frame of a client: we write no line that
# is longer, so one that is longer is damage, and is not held in memory.
LONGEST_LINE_BYTES = 256 << 20
# A line is looked at when so much of it is there: what does not begin like an object by then is
# counted, however long it is, and never held.
PIECE_BYTES = 1 << 20
# What some editors put before the first line; no part of it.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What a line that cannot be read raises, whatever is wrong with it.
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is too long to be one of ours, measured and not held.

    Args:
        start: how it begins.
        size_bytes: how long it is, without its line end.
        digest: of its bytes.
        has_end: it has a line end.
    """

    start: bytes
    size_bytes: int
    digest: str
    has_end: bool


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a thread file to read it; whatever then fails in reading is told alike.

    Raises:
        FileNotFoundError: it is not there.
        ThreadUnreadable: it cannot be opened or read.
    """
    check_regular(path)
    try:
        with path.open("rb", READ_BYTES) as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unusable(path, error) from error


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their line ends, up to the first one that has none.

    One that is too long to be ours comes in pieces, of which none can be read.
    """
    for line in iter(partial(file.readline, LONGEST_LINE_BYTES), b""):
        yield line
        if not line.endswith(b"\n") and len(line) < LONGEST_LINE_BYTES:
            # Somebody may be writing the rest of it right now; that would look like a line.
            return


def starts_of_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their line ends; of a longer one the start, for `whole_line` to read on."""
    return iter(partial(file.readline, PIECE_BYTES), b"")


def whole_line(file: BinaryIO, start: bytes) -> bytes | LongLine:
    """Read on a line that has not ended yet; one that is too long to be ours is only measured."""
    return start if len(start) < PIECE_BYTES else _rest_of(file, start)


def digest_of(data: bytes) -> str:
    """Return what a piece of a file is told by."""
    return _told(hashlib.sha256(data))


def decode(line: bytes) -> Message | RecordLine:
    """Decode a line of either kind.

    Raises:
        msgspec.MsgspecError, RecursionError, UnicodeError: it cannot be read.
    """
    # Nearly every line is told by its start, and so decoded once.
    if line.startswith(LINE_START) or _probe.decode(line).role is not msgspec.UNSET:
        return decode_line(line)
    return decode_record(line)


class _Probe(msgspec.Struct):
    """Tells a message from a record where the first key does not."""

    role: Any = msgspec.UNSET


_probe = msgspec.json.Decoder(_Probe)


def _told(hashed: hashlib._Hash) -> str:
    return hashed.digest()[:DIGEST_BYTES].hex()


def _rest_of(file: BinaryIO, start: bytes) -> bytes | LongLine:
    """Read a line on that has not ended yet, or measure it where it cannot be one of ours."""
    pieces, size_bytes = [start], len(start)
    said = start.removeprefix(BYTE_ORDER_MARK).lstrip()
    while (not said or said.startswith(b"{")) and size_bytes < LONGEST_LINE_BYTES:
        piece = file.readline(PIECE_BYTES)
        pieces.append(piece)
        size_bytes += len(piece)
        if not piece or piece.endswith(b"\n"):
            return b"".join(pieces)
    return _measured(file, pieces)


def _measured(file: BinaryIO, pieces: list[bytes]) -> LongLine:
    """Measure a line whose first pieces were read, and which has not ended in them."""
    start, size_bytes, hashed = pieces[0][: len(LINE_START)], 0, hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
        size_bytes += len(piece)
    pieces.clear()
    has_end = False
    while not has_end and (piece := file.readline(PIECE_BYTES)):
        has_end = piece.endswith(b"\n")
        piece = piece.removesuffix(b"\n")
        hashed.update(piece)
        size_bytes += len(piece)
    return LongLine(start, size_bytes, _told(hashed), has_end)
