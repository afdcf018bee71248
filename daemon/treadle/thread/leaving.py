"""The last resort of a thread that is closed: what could not be written is kept elsewhere.

Owns how that is told, and what this process could keep nowhere. Refuses to know why it could not
be written, and how it is kept.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from treadle.errors import StorageDegraded
from treadle.thread import unsaved

logger = logging.getLogger(__name__)


class Losses:
    """What was said in this process and could be kept nowhere, for whoever tells how it ended."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._at_stake: list[str] = []

    @property
    def told(self) -> list[str]:
        """What is lost, as the log has told it already."""
        return list(self._told)

    @property
    def at_stake(self) -> list[str]:
        """What is lost if the process ends now: it is still being kept elsewhere."""
        return list(self._at_stake)

    def tell(self, what: str, why: str) -> None:
        """Note that something is lost, and tell the log."""
        self._told.append(what)
        logger.critical("LOST: %s: %s", what, why)

    @contextlib.contextmanager
    def risking(self, what: str) -> Iterator[None]:
        """Note that something is lost unless the `with` block ends."""
        self._at_stake.append(what)
        try:
            yield
        finally:
            self._at_stake.remove(what)


# Of every thread of this process: an exit code speaks for all of them.
losses = Losses()


def leave(
    path: Path,
    lines: list[bytes],
    blobs: Mapping[str, bytes],
    *,
    size_bytes: int,
    why: str,
    hangs: bool,
) -> StorageDegraded:
    """Keep what waits to be written where it can be found; it blocks.

    Args:
        path: the thread's file.
        lines: what waits, each with its line end.
        blobs: bytes that these refer to and that wait as well, by the names of their files.
        size_bytes: where the last whole line of the file ends.
        why: why it waits, in a sentence.
        hangs: the device does not answer, so that nothing there is looked at.

    Returns:
        What says where it lies, or that it is lost; to be raised.
    """
    what = f"the last {len(lines)} lines of the thread {path}"
    whole = f"{what} and {_named(blobs)}" if blobs else what
    with losses.risking(whole):
        try:
            kept = unsaved.keep(path, size_bytes, b"".join(lines), blobs, is_readable=not hangs)
        except OSError as error:
            return _lost(path, whole, error)
    logger.error("%s lie in %s: %s", what, kept.place, why)
    told = f"{what} lie in {kept.place} for now, and come back when it is opened and can be written"
    if kept.failure is None:
        return StorageDegraded(f"{told}. {why}", path=str(kept.place))
    left_out = f"{_named(kept.lost)} of the thread {path}"
    losses.tell(left_out, _say(kept.failure))
    return StorageDegraded(
        f"{left_out} are lost: there was no room for them anywhere ({_say(kept.failure)}); {told}",
        path=str(kept.place),
    )


def _lost(path: Path, what: str, error: OSError) -> StorageDegraded:
    losses.tell(what, _say(error))
    return StorageDegraded(
        f"{what} are lost: they could be written neither there nor anywhere else "
        f"({_say(error)}); free some space",
        path=str(path),
    )


def _named(blobs: Mapping[str, bytes] | list[str]) -> str:
    return f"{len(blobs)} attachments ({', '.join(blobs)})"


def _say(error: OSError) -> str:
    return error.strerror or str(error)
