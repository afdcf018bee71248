"""The sandbox seam: the files a tool may reach, and what it is told of those it may not.

Owns the texts, so that every sandbox speaks alike. Refuses to know where the files are.
"""

from __future__ import annotations

from typing import Protocol

# Tools read whole files into memory and page through them; more than this is no text to read.
READ_LIMIT_BYTES = 16 * 1024 * 1024

OUTSIDE = "the path leads outside the folder that this agent works in"
NO_PATH = "this is no path: it is empty, or holds characters that no file name can"
NO_ENTRY = "no such file or folder"
NOT_A_FOLDER = "a part of the path is a file, not a folder"
IS_A_FOLDER = "this is a folder"
NOT_REGULAR = "this is neither a file nor a folder (a pipe, socket or device), so it is not opened"
TOO_LARGE = f"the file is larger than {READ_LIMIT_BYTES // 2**20} MiB, too large to read whole"


class Sandbox(Protocol):
    """Where a session's tools act.

    Contract: every method takes a path as a tool was given it; one that leads outside, by
    whatever way, raises `PermissionError`; the usual `OSError`s say what else is wrong, their
    text free of anything outside the sandbox. Methods suspend, they do not block.
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
