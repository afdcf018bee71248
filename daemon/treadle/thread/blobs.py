"""The bytes of images and files: beside the thread, named by their hash, written once.

Owns that bytes are on the device before a line refers to them. Refuses to know what a line says
beside the reference, who sent the bytes and which model may see them.

They lie in `INSTANCE.blobs/SHA256.SUFFIX`, the suffix by the type.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import itertools
import logging
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from treadle.errors import StorageDegraded
from treadle.thread.attachments import Attachment, Reference, attachments_of, references
from treadle.thread.files import degraded, make_folder, open_ours, sync, sync_folder
from treadle.thread.message import Message
from treadle.thread.mime_types import SUFFIXES
from treadle.thread.paths import beside

logger = logging.getLogger(__name__)

# The extension of the folder that lies beside a thread.
BLOBS_SUFFIX = ".blobs"


class BlobLost(Exception):
    """Bytes that are not there any more, or not the same; the text says which."""


class Blobs:
    """The bytes that one thread's messages refer to.

    Args:
        thread: the thread's file; None keeps the bytes as long as this object.
    """

    def __init__(self, thread: Path | None) -> None:
        self._folder = None if thread is None else blobs_folder(thread)
        self._held: dict[str, bytes] = {}
        self._written: set[str] = set()

    def hold(self, *messages: Message) -> None:
        """Take over the bytes that messages bring along, to be written by the next `write`."""
        for block in attachments_of(messages):
            name = _reference(block).file_name
            if not self._has(name):
                self._held[name] = block.data

    def write(self) -> None:
        """Write what is held; it is on the device when this returns.

        Contract: whoever writes the thread calls this before a line that refers to the bytes. It
        blocks, and does nothing where `prepare` has done it; what fails stays held, can be read
        meanwhile, and is tried again by the next call.

        Raises:
            StorageDegraded: the bytes could not be written.
        """
        if self._folder is None:
            return
        for name, data in list(self._held.items()):
            try:
                write_blob(self._folder, name, data)
            except OSError as error:
                raise degraded(self._folder / name, error) from error
            self._written.add(name)
            self._held.pop(name, None)

    @property
    def held_bytes(self) -> int:
        """How much waits to be written."""
        return sum(map(len, list(self._held.values())))

    def held_for(self, lines: Iterable[bytes]) -> dict[str, bytes]:
        """Return, by name, what waits to be written and lines refer to."""
        text = b"".join(lines) if self._held else b""
        return {
            name: data
            for name, data in list(self._held.items())
            if name.partition(".")[0].encode() in text
        }

    async def prepare(self, *messages: Message) -> None:
        """Write ahead, in a worker thread, what messages bring along.

        Contract: raises nothing of ours; what fails is told when the message is said. A cancel
        leaves at worst bytes that no line refers to.
        """
        self.hold(*messages)
        if self._folder is None or not self._held:
            return
        try:
            await asyncio.to_thread(self.write)
        except StorageDegraded as error:
            logger.debug("not yet written: %s", error.message)

    def read(self, block: Mapping[str, Any]) -> bytes:
        """Return the bytes that a block refers to, their hash checked; it blocks.

        Raises:
            BlobLost: they are missing or damaged.
        """
        if isinstance(block, Attachment):
            return block.data
        reference = _reference(block)
        held = self._held.get(reference.file_name)
        if held is not None:
            return held
        if self._folder is None:
            raise BlobLost("its bytes are missing")
        return _read(self._folder, reference)

    def _has(self, name: str) -> bool:
        # Who deletes the folder meanwhile is brought the bytes once more.
        return self._folder is not None and name in self._written and (self._folder / name).exists()


def blobs_folder(thread: Path) -> Path:
    """Return the folder beside a thread that its messages' bytes lie in, if there are any."""
    return beside(thread, BLOBS_SUFFIX)


def blob_path(thread: Path, block: Mapping[str, Any]) -> Path | None:
    """Return the file of the bytes that a block refers to; None for any other block."""
    reference = Reference.of(block)
    return None if reference is None else blobs_folder(thread) / reference.file_name


@dataclass(frozen=True, slots=True)
class BlobProblem:
    """A file beside a thread that is not as it should be.

    `kind` is `missing` or `damaged` for bytes that a message refers to, and `orphan` for a file
    that none does.
    """

    kind: Literal["missing", "damaged", "orphan"]
    path: Path


def check_blobs(thread: Path, messages: Iterable[Message]) -> list[BlobProblem]:
    """Compare a thread's messages with what lies beside it; changes nothing, and blocks.

    Args:
        thread: the thread's file.
        messages: all of its messages, also those that a model is not shown any more.

    Contract: a turn that runs may have written bytes whose line is still to come; hold the
    thread's lock where an orphan is to be deleted.
    """
    folder = blobs_folder(thread)
    wanted = {each.file_name: each for message in messages for each in references(message)}
    problems: list[BlobProblem] = []
    for name, reference in wanted.items():
        path = folder / name
        if not path.is_file():
            problems.append(BlobProblem("missing", path))
        elif not _is_whole(path, reference.sha256, reference.size_bytes):
            problems.append(BlobProblem("damaged", path))
    orphans = (path for path in _files(folder) if path.name not in wanted)
    return problems + [BlobProblem("orphan", path) for path in orphans]


def copy_blobs(source: Path, target: Path, messages: Iterable[Message]) -> list[str]:
    """Copy the bytes that messages refer to from beside one thread to beside another; it blocks.

    Args:
        source: the file of the thread that has them.
        target: the file of the thread that is to have them; write its messages afterwards.
        messages: those of the target.

    Returns:
        The names of files that are missing or damaged at the source, and so were left out.

    Raises:
        StorageDegraded: there is no room for them.
    """
    lost: list[str] = []
    for reference in {each for message in messages for each in references(message)}:
        try:
            data = _read(blobs_folder(source), reference)
        except BlobLost:
            lost.append(reference.file_name)
            continue
        folder = blobs_folder(target)
        try:
            make_folder(target.parent)
            write_blob(folder, reference.file_name, data)
        except OSError as error:
            raise degraded(folder / reference.file_name, error) from error
    return sorted(lost)


def write_blob(folder: Path, name: str, data: bytes) -> None:
    """Write bytes under their name, all of them or nothing; it blocks until they are on the device.

    Args:
        folder: where, as `blobs_folder` tells it.
        name: what their file is called, by `Reference.file_name`.
        data: them.

    Raises:
        OSError: they could not be written.
    """
    path = folder / name
    # Where the thread's own folder is away, nothing is made in its place: it may come back.
    if not folder.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder.parent))
    make_folder(folder)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(folder))
    if _is_whole(path, name.partition(".")[0], len(data)):
        return
    new = folder / f".{name}.{os.getpid()}-{next(_numbers)}"
    try:
        descriptor, _ = open_ours(new, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def is_named_by(name: str, data: bytes) -> bool:
    """Tell whether a file of these bytes may have this name."""
    is_name = bool(_OURS.fullmatch(name))
    return is_name and hashlib.sha256(data).hexdigest() == name.partition(".")[0]


def delete_unfinished(thread: Path) -> None:
    """Delete what a kill left of bytes that were just being written; it blocks.

    Args:
        thread: the thread's file; whoever calls this holds its lock.

    Raises:
        OSError: one of them cannot be deleted.
    """
    ours = f".{os.getpid()}-"
    for path in _files(blobs_folder(thread)):
        if path.name.startswith(".") and _OURS.fullmatch(path.name) and ours not in path.name:
            path.unlink(missing_ok=True)


def delete_blobs(thread: Path, *, keep: Collection[str] = ()) -> None:
    """Delete the bytes beside a thread, and their folder once it is empty; it blocks.

    Files that are not ours stay, and the folder with them.

    Args:
        thread: the thread's file; whoever deletes holds its lock.
        keep: names of files that stay, as `referenced` gives them.

    Raises:
        OSError: one of them cannot be deleted.
    """
    folder = blobs_folder(thread)
    for path in _files(folder):
        if path.name not in keep and _OURS.fullmatch(path.name):
            path.unlink(missing_ok=True)
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


# A file of bytes, or what a kill left of one that was being written.
_OURS = re.compile(
    rf"\.?[0-9a-f]{{64}}(?:{'|'.join(map(re.escape, (*SUFFIXES.values(), '.bin')))})(?:\.\d+-\d+)?"
)
# Tells apart what one process writes at the same time.
_numbers = itertools.count()


def _reference(block: Mapping[str, Any]) -> Reference:
    """Read a block that refers to bytes.

    Raises:
        BlobLost: it does not.
    """
    reference = Reference.of(block)
    if reference is None:
        raise BlobLost("it refers to no bytes")
    return reference


def _read(folder: Path, reference: Reference) -> bytes:
    """Return bytes as they were written.

    Raises:
        BlobLost: they are missing or damaged.
    """
    path = folder / reference.file_name
    try:
        # Asked first: a pipe has no end, and a file of another size need not be read.
        if not path.is_file():
            raise BlobLost("its bytes are missing")
        data = path.read_bytes() if path.stat().st_size == reference.size_bytes else b""
    except OSError as error:
        raise BlobLost("its bytes cannot be read") from error
    if len(data) != reference.size_bytes or hashlib.sha256(data).hexdigest() != reference.sha256:
        raise BlobLost("its bytes are damaged")
    return data


def _is_whole(path: Path, sha256: str, size_bytes: int) -> bool:
    try:
        if not path.is_file() or path.stat().st_size != size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _files(folder: Path) -> list[Path]:
    """Return what lies in a folder; nothing where there is none, or only a link to one."""
    if folder.is_symlink():
        return []
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
