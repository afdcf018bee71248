"""A sandbox in memory: it starts empty, touches no disk and ends with its session."""

from __future__ import annotations

import errno
import posixpath
from dataclasses import dataclass, field

from treadle.sandbox import sandbox as seam


@dataclass(slots=True)
class VirtualSandbox:
    """Files by their path, relative and with `/` between its parts; folders are implied.

    A path that begins with `/` is counted from the sandbox's own root.
    """

    files: dict[str, bytes] = field(default_factory=dict)

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a file; see the seam for what is raised."""
        place = _place(path)
        if place not in self.files:
            raise self._missing(place, path)
        if len(self.files[place]) > seam.READ_LIMIT_BYTES:
            raise OSError(errno.EFBIG, seam.TOO_LARGE, path)
        return self.files[place]

    async def names(self, path: str) -> list[str]:
        """List a folder; see the seam for what is raised."""
        place = _place(path)
        if not self._is_folder(place):
            raise self._missing(place, path)
        below = [_parts(file)[len(_parts(place)) :] for file in self._below(place)]
        return sorted({parts[0] + ("/" if len(parts) > 1 else "") for parts in below})

    def _missing(self, place: str, path: str) -> OSError:
        """Say why there is nothing of the wanted kind at `place`."""
        if place in self.files:
            return NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER, path)
        if self._is_folder(place):
            return IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER, path)
        parts = _parts(place)
        if any("/".join(parts[:end]) in self.files for end in range(1, len(parts))):
            return NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER, path)
        return FileNotFoundError(errno.ENOENT, seam.NO_ENTRY, path)

    def _is_folder(self, place: str) -> bool:
        return not place or any(self._below(place))

    def _below(self, place: str) -> list[str]:
        return [file for file in self.files if not place or file.startswith(f"{place}/")]


def _place(path: str) -> str:
    """Return where a path leads, as `files` spells it; empty for the root.

    Raises:
        OSError: it is no path.
        PermissionError: it climbs out of the root.
    """
    if not path or "\0" in path:
        raise OSError(errno.EINVAL, seam.NO_PATH, path)
    place = posixpath.normpath(path.lstrip("/") or ".")
    if place == ".." or place.startswith("../"):
        raise PermissionError(errno.EACCES, seam.OUTSIDE, path)
    return "" if place == "." else place


def _parts(place: str) -> list[str]:
    return place.split("/") if place else []
