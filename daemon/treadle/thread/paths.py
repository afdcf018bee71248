"""Where a thread's files lie, and how a pair's names become file names.

Owns the encoding. Refuses to touch the disk or to know what is in the files.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path

from treadle.errors import InvalidParams

# The folder of all threads, inside the data folder.
THREADS_FOLDER = "threads"
# The extension of a thread, and those of what lies beside it.
THREAD_SUFFIX = ".jsonl"
DAMAGED_SUFFIX = ".damaged"
LOCK_SUFFIX = ".lock"
# The folder that too long outputs of a thread's tools lie in.
OUTPUTS_SUFFIX = ".outputs"
# What is being written beside a thread; after a kill it is in nobody's way.
NEW_SUFFIX = ".new"
# What a thread is called while all that lies beside it is deleted too.
DELETING_SUFFIX = ".deleting"
# What an editor was shown of threads lies here, inside the data folder, a file for each pair.
SHOWN_FOLDER = "shown"
# Names are shown in lists and window titles; nobody reads more than this.
NAME_LENGTH = 200
# File systems take 255 bytes a name; half of it leaves room for suffixes and for long folders.
ENCODED_BYTES = 120


def thread_path(data: Path, agent: str, instance: str) -> Path:
    """Return the file of a pair's thread; it need not exist.

    Args:
        data: the data folder.
        agent: the agent's name, any text.
        instance: the instance's name, any text.
    """
    return data / THREADS_FOLDER / encode_name(agent) / (encode_name(instance) + THREAD_SUFFIX)


def shown_path(thread: Path) -> Path:
    """Return the file in which an editor is shown what was said in a thread."""
    data = thread.parents[2]
    return (
        data / SHOWN_FOLDER / thread.parent.name / (thread.name.removesuffix(THREAD_SUFFIX) + ".md")
    )


def beside(thread: Path, suffix: str) -> Path:
    """Return the path of what lies beside a thread: its `.damaged` or `.lock` file."""
    return thread.with_name(thread.name.removesuffix(THREAD_SUFFIX) + suffix)


def encode_name(name: str) -> str:
    """Encode a name as a file name that no other name has, on any file system.

    `a-z`, `0-9`, `-` and `_` stand for themselves, any other byte of the name's UTF-8 is `+` and
    two hex digits. A name that Windows keeps for a device has its first letter escaped.
    A result that is too long is cut and ends in `++` and a part of the whole name's SHA-256.
    """
    raw = name.encode("utf-8", "surrogatepass")
    pieces = [chr(byte) if byte in _PLAIN else f"+{byte:02x}" for byte in raw]
    if _DEVICE.fullmatch(name):
        pieces[0] = f"+{raw[0]:02x}"
    encoded = "".join(pieces)
    if len(encoded) <= ENCODED_BYTES:
        return encoded or _EMPTY
    tail = "++" + hashlib.sha256(raw).hexdigest()[:_HASH_DIGITS]
    return _cut(pieces, ENCODED_BYTES - len(tail)) + tail


def decode_name(encoded: str) -> str | None:
    """Return the name behind a file name, or None when it was cut or is none of ours."""
    if encoded == _EMPTY:
        return ""
    if not _ENCODED.fullmatch(encoded):
        return None
    raw = _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), encoded.encode())
    try:
        name = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return name if encode_name(name) == encoded else None


def validate_name(value: str, field: str) -> None:
    """Check the name of an agent or an instance, as a client gave it.

    Args:
        value: the name.
        field: where it stood, for the error.

    Raises:
        InvalidParams: it is empty, longer than 200 characters, or holds control characters or
            lone surrogates.
    """
    if not value:
        raise InvalidParams(f"{field} is empty; give it a name", path=field)
    if len(value) > NAME_LENGTH:
        raise InvalidParams(
            f"{field} has {len(value)} characters; at most {NAME_LENGTH} are possible", path=field
        )
    bad = next((char for char in value if unicodedata.category(char) in _REFUSED), None)
    if bad is not None:
        raise InvalidParams(
            f"{field} holds U+{ord(bad):04X}; control characters and lone surrogates "
            "cannot stand in a name",
            path=field,
        )


# What every file system tells apart and takes as it is; anything else is escaped.
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
# The empty name still needs a file name; a `+` without digits is no other name's.
_EMPTY = "+"
# 128 bits of the hash: two names that meet are out of reach.
_HASH_DIGITS = 32
# Windows opens a device for these, whatever extension follows; capitals are escaped anyway.
_DEVICE = re.compile("con|prn|aux|nul|com[0-9]|lpt[0-9]")
# A name that is made of those and of escaped bytes, and one such byte.
_ENCODED = re.compile(r"(?:[a-z0-9_-]|\+[0-9a-f]{2})+")
_ESCAPE = re.compile(rb"\+([0-9a-f]{2})")
# Unicode's categories of control characters and of surrogates.
_REFUSED = frozenset({"Cc", "Cs"})


def _cut(pieces: list[str], limit: int) -> str:
    """Join as many whole pieces as fit."""
    size = 0
    for index, piece in enumerate(pieces):
        size += len(piece)
        if size > limit:
            return "".join(pieces[:index])
    return "".join(pieces)
