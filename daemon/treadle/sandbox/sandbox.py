"""The sandbox seam: the files a tool may reach, and what it is told of those it may not.

Owns the texts, so that every sandbox speaks alike. Refuses to know where the files are.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# Tools read whole files into memory and page through them; more than this is no text to read.
READ_LIMIT_BYTES = 16 * 1024 * 1024

# A walk that finds more files than this is told to begin further down.
WALK_LIMIT_FILES = 100_000

# What whoever asked is told: the same words wherever the files are, and none of the system's own,
# which might name what lies outside.
OUTSIDE = "the path leads outside the folder that this agent works in"
NO_PATH = "this is no path: it is empty, or holds characters that no file name can"
NO_ENTRY = "no such file or folder"
TOO_LONG = "the path is too long"
NOT_A_FOLDER = "a part of the path is a file, not a folder"
IS_A_FOLDER = "this is a folder"
NOT_EMPTY = "the folder is not empty"
READ_ONLY = "the file is read-only, or belongs to someone else"
TOO_MANY = f"the folder holds more than {WALK_LIMIT_FILES} entries, too many to list"
ROOT_STAYS = "this is the folder that the agent works in, which stays"
NOT_REGULAR = "this is neither a file nor a folder (a pipe, socket or device), so it is not opened"
TOO_LARGE = f"the file is larger than {READ_LIMIT_BYTES // 2**20} MiB, too large to read whole"
CHANGED = "the file is not what it was when it was last looked at; read it again"


class Changed(OSError):
    """A file is not what whoever writes it took it for; nothing was written."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The files below a folder.

    Args:
        files: their paths, relative to the sandbox's root, `/` between the parts, sorted.
        is_whole: there are no more of them than a walk returns.
    """

    files: list[str]
    is_whole: bool


class Sandbox(Protocol):
    """Where a session's tools act.

    Contract: every method takes a path as a tool was given it; one that leads outside, by
    whatever way, raises `PermissionError`; the usual `OSError`s say what else is wrong, their
    text free of anything outside the sandbox. Methods suspend, they do not block.

    Attributes:
        folder: where processes that act in it are started; None where none can be.
    """

    folder: Path | None

    async def place(self, path: str) -> str:
        """Return the one name of a file that may be there, however it was spelled.

        It is relative to the root, with `/` between its parts, links followed; `.` for the root.
        """

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a regular file.

        Raises:
            IsADirectoryError: it is a folder; `names` lists it.
            OSError: it is missing, outside, no regular file, or over READ_LIMIT_BYTES.
        """

    async def names(self, path: str) -> list[str]:
        """List the entries of a folder, sorted, the names of folders ending in `/`.

        Raises:
            NotADirectoryError: it is a file.
            OSError: it is missing or outside.
        """

    async def walk(self, path: str, *, ignored: bool = False) -> Walk:
        """Find the regular files at and below a path; links are not followed.

        Args:
            path: a folder, or one file.
            ignored: also those that the ignore files (`.gitignore`, `.ignore`) leave out. What
                lies in `.git` is never found.

        Raises:
            OSError: it is missing or outside.
        """

    async def write_bytes(self, path: str, data: bytes, *, before: bytes | None) -> str:
        """Put a file there whole, or change nothing; folders on the way are made.

        A file that is replaced keeps its mode. A link is followed where it leads inside.

        Args:
            path: where.
            data: what it is to hold.
            before: what it holds now; None where there is nothing yet.

        Returns:
            A sentence on where it went, for whoever asked for it; empty for the disk or memory.

        Raises:
            Changed: it holds something else, or is there although nothing should be.
            IsADirectoryError: it is a folder.
            OSError: it is outside, no regular file, or cannot be written.
        """

    async def remove(self, path: str, *, before: bytes | None) -> None:
        """Remove a file, the link where it is one, or an empty folder.

        Args:
            path: what.
            before: what the file holds now; None for a folder.

        Raises:
            Changed: it holds something else.
            OSError: it is missing, outside, or a folder that is not empty.
        """

    async def unsaved(self) -> Collection[str]:
        """Return the places of what may differ from the disk below `folder`: an editor's text.

        Whoever searches that folder by other means reads these here instead.
        """


def check_size(data: bytes, path: str) -> None:
    """Refuse what would be too large to read whole.

    Args:
        data: what is read, or is to be written.
        path: where, as it was given.

    Raises:
        OSError: it is larger than READ_LIMIT_BYTES.
    """
    if len(data) > READ_LIMIT_BYTES:
        raise OSError(errno.EFBIG, TOO_LARGE, path)
