"""What is known of servers from before: how they speak, and their tools.

So that the next start asks in the right way at once, and a model is told of the tools before the
server runs. A file for each declaration lies in `mcp/` of the cache folder; one that is missing,
broken or of somebody else is as none. Owns these files. Refuses to know what becomes of what they
say. Blocks on the disk for a moment: meant for worker threads.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from treadle.mcp.remote import Era, RemoteTool
from treadle.thread.files import O_NOFOLLOW, make_folder, open_existing, open_ours, write_whole

# Many large tools; what is larger is asked for anew at each start.
MOST_BYTES = 4 * 1024 * 1024

# Another version than ours says something else.
_VERSION = 2

_FINGERPRINT = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a server.

    Args:
        era: how it speaks.
        tools: what it listed, in its order.
        offers: which of `tools`, `resources` and `prompts` it has.
    """

    era: Era
    tools: tuple[RemoteTool, ...] = ()
    offers: frozenset[str] = frozenset()


class Remembered:
    """What is known of servers.

    Args:
        folder: the cache folder, which need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "mcp"

    def recall(self, fingerprint: str) -> Known | None:
        """Return what is known of a server, by its declaration's fingerprint; None for nothing."""
        path = self._path(fingerprint)
        try:
            descriptor = open_existing(path, os.O_RDONLY | O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                if not _is_ours(file.fileno()):
                    return None
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                return None
            kept = msgspec.json.decode(data, type=_Kept)
        except (OSError, ValueError, RecursionError):
            return None
        is_it = kept.version == _VERSION and kept.fingerprint == fingerprint
        return Known(kept.era, kept.tools, kept.offers) if is_it else None

    def keep(self, fingerprint: str, known: Known) -> None:
        """Keep what is known of a server, or forget it where that is too much.

        Raises:
            OSError: it cannot be kept; what was known before may still be.
        """
        path = self._path(fingerprint)
        data = _encoded(_Kept(_VERSION, fingerprint, known.era, known.tools, known.offers))
        if len(data) > MOST_BYTES:
            path.unlink(missing_ok=True)
            return
        make_folder(self._folder)
        # Written beside it and moved: whoever reads meanwhile sees the one or the other.
        new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        descriptor, _ = open_ours(new, os.O_WRONLY)
        try:
            write_whole(descriptor, data)
        finally:
            os.close(descriptor)
        new.replace(path)

    def _path(self, fingerprint: str) -> Path:
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise ValueError(f"{fingerprint!r} is no fingerprint")
        return self._folder / f"{fingerprint}.json"


class _Kept(msgspec.Struct):
    """A file."""

    version: int
    fingerprint: str
    era: Era
    tools: tuple[RemoteTool, ...]
    offers: frozenset[str]


def _is_ours(descriptor: int) -> bool:
    """Tell whether nobody else wrote an open file: its words would reach a model."""
    if not hasattr(os, "getuid"):
        return True
    status = os.fstat(descriptor)
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _encoded(kept: Any) -> bytes:
    return msgspec.json.encode(kept)
