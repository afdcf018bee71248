"""A sandbox on the disk, confined to one folder by real path, symbolic links included.

Owns the judgement of paths: each is resolved first and checked. `opening` then walks to it in a
way that a swap between the check and the use cannot lead out. Refuses to know tools.
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

from treadle.sandbox import sandbox as seam
from treadle.sandbox.opening import Opened, open_below
from treadle.sandbox.paths import is_within, real_path


class LocalSandbox:
    """The files below `root`, which need not exist before the first use.

    Absolute paths that lead inside are as good as relative ones, which are counted from `root`.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a regular file; see the seam for what is raised."""
        return await asyncio.to_thread(self._read_bytes, path)

    async def names(self, path: str) -> list[str]:
        """List a folder; see the seam for what is raised."""
        return await asyncio.to_thread(self._names, path)

    def _read_bytes(self, path: str) -> bytes:
        with self._open(path) as opened:
            return opened.read(seam.READ_LIMIT_BYTES)

    def _names(self, path: str) -> list[str]:
        with self._open(path) as opened:
            return opened.names()

    def _open(self, path: str) -> Opened:
        """Open what `path` names, wherever it came from.

        Raises:
            OSError: with the path as it was given and a text of the seam, nothing of the disk's.
        """
        real = real_path(os.path.join(self.root, path)) if path else None  # noqa: PTH118 - a Path would drop what must be judged: `.`, `//`
        if real is None:
            raise OSError(errno.EINVAL, seam.NO_PATH, path)
        if not is_within(real, self.root):
            raise PermissionError(errno.EACCES, seam.OUTSIDE, path)
        return open_below(self.root, real.relative_to(self.root).parts, path)
