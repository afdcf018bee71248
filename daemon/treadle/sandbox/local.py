"""A sandbox on the disk, confined to one folder by real path, symbolic links included.

Owns the judgement of paths: each is resolved first and checked. `holding` then walks to it in a
way that a swap between the check and the use cannot lead out. Refuses to know tools.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path

from treadle.sandbox import sandbox as seam
from treadle.sandbox.holding import Held, names_below, read_below, telling
from treadle.sandbox.paths import is_refused_here, parts_below, real_path, spelled_below
from treadle.sandbox.settling import settled
from treadle.sandbox.walking import walk
from treadle.sandbox.writing import remove_below, write_below


class LocalSandbox:
    """The files below `root`, which need not exist before the first use.

    Absolute paths that lead inside are as good as relative ones, which are counted from `root`.
    """

    folder: Path | None

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.folder = self.root

    async def place(self, path: str) -> str:
        """Return the one name of a file; see the seam."""
        return await asyncio.to_thread(self._place, path)

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a regular file; see the seam for what is raised."""
        return await asyncio.to_thread(self._read_bytes, path)

    async def names(self, path: str) -> list[str]:
        """List a folder; see the seam for what is raised."""
        return await asyncio.to_thread(self._names, path)

    async def walk(self, path: str, *, ignored: bool = False) -> seam.Walk:
        """Find the files below a folder; see the seam for what is raised."""
        return await settled(lambda is_given_up: self._walk(path, ignored, is_given_up))

    async def write_bytes(self, path: str, data: bytes, *, before: bytes | None) -> str:
        """Put a file there; see the seam for what is raised.

        When it is cancelled, nothing changes, unless the file was just getting its name.
        """
        await settled(lambda is_given_up: self._write_bytes(path, data, before, is_given_up))
        return ""

    async def remove(self, path: str, *, before: bytes | None) -> None:
        """Remove a file, a link or an empty folder; see the seam for what is raised."""
        await settled(lambda _: self._remove(path, before))

    async def unsaved(self) -> Collection[str]:
        """Return nothing: what is read here lies on the disk."""
        return ()

    def _place(self, path: str) -> str:
        parts = self._judge(path)
        with telling(path):
            return "/".join(spelled_below(self.root, parts)) or "."

    def _read_bytes(self, path: str) -> bytes:
        parts = self._judge(path)
        with telling(path):
            return read_below(self.root, parts, seam.READ_LIMIT_BYTES)

    def _names(self, path: str) -> list[str]:
        parts = self._judge(path)
        with telling(path):
            return names_below(self.root, parts)

    def _walk(self, path: str, ignored: bool, is_given_up: Callable[[], bool]) -> seam.Walk:
        parts = self._judge(path)
        with telling(path), Held.of(self.root) as root:
            return walk(root, parts, ignored=ignored, is_given_up=is_given_up)

    def _write_bytes(
        self, path: str, data: bytes, before: bytes | None, is_given_up: Callable[[], bool]
    ) -> None:
        parts = self._judge(path)
        # What could not be read back is not written.
        seam.check_size(data, path)
        with telling(path):
            if path.endswith(("/", os.sep)):
                raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER)
            # Replacing must not rename, where the disk ignores case.
            parts = spelled_below(self.root, parts)
            write_below(self.root, parts, data, before=before, is_given_up=is_given_up)

    def _remove(self, path: str, before: bytes | None) -> None:
        leads_to = self._judge(path)
        parts = self._judge_entry(path)
        with telling(path):
            remove_below(self.root, parts, leads_to, before=before)

    def _judge(self, path: str) -> tuple[str, ...]:
        """Return where `path` leads, wherever it came from, as the way from the root.

        Raises:
            OSError: with the path as it was given and a text of the seam, nothing of the disk's.
        """
        if is_refused_here(path, self.root):
            raise OSError(errno.EINVAL, seam.NO_PATH, path)
        real = real_path(os.path.join(self.root, path)) if path else None  # noqa: PTH118 - a Path would drop what must be judged: `.`, `//`
        if real is None:
            raise OSError(errno.EINVAL, seam.NO_PATH, path)
        parts = parts_below(real, self.root)
        if parts is None:
            raise PermissionError(errno.EACCES, seam.OUTSIDE, path)
        return parts

    def _judge_entry(self, path: str) -> tuple[str, ...]:
        """Return the way to what `path` itself names: where its last part is a link, that link."""
        folder, name = os.path.split(path.rstrip("/" + os.sep))
        if name in ("", ".", ".."):
            return self._judge(path)
        return (*self._judge(folder or "."), name)
