"""A sandbox in memory: it starts empty, touches no disk and ends with its session."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from treadle.sandbox import sandbox as seam
from treadle.sandbox.holding import Kind
from treadle.sandbox.settling import settled
from treadle.sandbox.walking import walk

# What disks allow; a name that is written here can be written there.
_NAME_LIMIT_BYTES = 255

# Everything is held in the daemon's memory, which it shares with all other sessions.
TOTAL_LIMIT_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class VirtualSandbox:
    """Files by their path, relative and with `/` between its parts.

    A path that begins with `/` is counted from the sandbox's own root. A folder is there as long
    as a file lies in it, and stays once one was written there.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    folder: Path | None = field(default=None, init=False)
    _folders: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        for place in self.files:
            self._folders.update(_around(place))

    async def place(self, path: str) -> str:
        """Return the one name of a file; see the seam."""
        return _place(path) or "."

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a file; see the seam for what is raised."""
        place = _place(path)
        if place not in self.files:
            raise self._missing(place, path)
        seam.check_size(self.files[place], path)
        return self.files[place]

    async def names(self, path: str) -> list[str]:
        """List a folder; see the seam for what is raised."""
        place = _place(path)
        if not self._is_folder(place):
            raise self._missing(place, path)
        below = [_parts(entry)[len(_parts(place)) :] for entry in self._below(place)]
        names = {parts[0] + ("/" if len(parts) > 1 else "") for parts in below}
        if len(names) > seam.WALK_LIMIT_FILES:
            raise OSError(errno.EFBIG, seam.TOO_MANY, path)
        return sorted(names)

    async def walk(self, path: str, *, ignored: bool = False) -> seam.Walk:
        """Find the files below a folder; see the seam for what is raised."""
        place = _place(path)
        if place not in self.files and not self._is_folder(place):
            raise self._missing(place, path)
        files = dict(self.files)
        return await settled(
            lambda is_given_up: walk(
                _Folder.of(files), _parts(place), ignored=ignored, is_given_up=is_given_up
            )
        )

    async def write_bytes(self, path: str, data: bytes, *, before: bytes | None) -> str:
        """Put a file there; see the seam for what is raised."""
        place = _place(path)
        if self._is_folder(place) or path.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER, path)
        self._check_way(place, path)
        if self.files.get(place) != before:
            raise seam.Changed(errno.EBUSY, seam.CHANGED, path)
        # What could not be read back is not written.
        seam.check_size(data, path)
        held_bytes = sum(map(len, self.files.values())) - len(before or b"")
        if held_bytes + len(data) > TOTAL_LIMIT_BYTES:
            raise OSError(errno.ENOSPC, "the sandbox is full; remove files first", path)
        self.files[place] = bytes(data)
        self._folders.update(_around(place))
        return ""

    async def remove(self, path: str, *, before: bytes | None) -> None:
        """Remove a file or an empty folder; see the seam for what is raised."""
        place = _place(path)
        if not place:
            raise OSError(errno.EBUSY, seam.ROOT_STAYS, path)
        if place in self.files:
            if self.files[place] != before:
                raise seam.Changed(errno.EBUSY, seam.CHANGED, path)
            del self.files[place]
            return
        if not self._is_folder(place):
            raise self._missing(place, path)
        if before is not None:
            raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER, path)
        if self._below(place):
            raise OSError(errno.ENOTEMPTY, seam.NOT_EMPTY, path)
        self._folders.discard(place)

    async def unsaved(self) -> Collection[str]:
        """Return nothing: there is no disk that anything could differ from."""
        return ()

    def _missing(self, place: str, path: str) -> OSError:
        """Say why there is nothing of the wanted kind at `place`."""
        if place in self.files:
            return NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER, path)
        if self._is_folder(place):
            return IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER, path)
        if any(folder in self.files for folder in _around(place)):
            return NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER, path)
        return FileNotFoundError(errno.ENOENT, seam.NO_ENTRY, path)

    def _check_way(self, place: str, path: str) -> None:
        """Refuse a place below a file.

        Raises:
            NotADirectoryError: it lies below one.
        """
        if any(folder in self.files for folder in _around(place)):
            raise NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER, path)

    def _is_folder(self, place: str) -> bool:
        return not place or place in self._folders or bool(self._below(place))

    def _below(self, place: str) -> list[str]:
        """Return the files below a folder, and its folders with a last part that is empty."""
        entries = [*self.files, *(f"{folder}/" for folder in self._folders if folder)]
        start = f"{place}/" if place else ""
        return [entry for entry in entries if entry.startswith(start) and entry != start]


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of a sandbox as it was when a walk began."""

    below: dict[str, _Folder | bytes]

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> _Folder:
        root = cls({})
        for place, data in files.items():
            *way, name = place.split("/")
            folder = root
            for part in way:
                following = folder.below.setdefault(part, cls({}))
                assert isinstance(following, _Folder), "a file cannot have files below it"
                folder = following
            folder.below[name] = data
        return root

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def entries(self) -> Iterator[tuple[str, Kind]]:
        for name in self.below:
            yield name, self.kind(name)

    def enter(self, name: str) -> _Folder:
        folder = self.below.get(name, b"")
        if isinstance(folder, bytes):
            raise NotADirectoryError(errno.ENOTDIR, seam.NOT_A_FOLDER)
        return folder

    def kind(self, name: str) -> Kind:
        if name not in self.below:
            raise FileNotFoundError(errno.ENOENT, seam.NO_ENTRY)
        return "folder" if isinstance(self.below[name], _Folder) else "file"

    def read(self, name: str, limit_bytes: int) -> bytes:
        data = self.below.get(name)
        if not isinstance(data, bytes) or len(data) > limit_bytes:
            raise FileNotFoundError(errno.ENOENT, seam.NO_ENTRY)
        return data


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
    try:
        names = [part.encode("utf-8", "surrogateescape") for part in place.split("/")]
    except UnicodeEncodeError:
        raise OSError(errno.EINVAL, seam.NO_PATH, path) from None
    if max(map(len, names)) > _NAME_LIMIT_BYTES:
        raise OSError(errno.ENAMETOOLONG, seam.TOO_LONG, path)
    return "" if place == "." else place


def _parts(place: str) -> list[str]:
    return place.split("/") if place else []


def _around(place: str) -> list[str]:
    """Return the folders that a place lies in, but for the root."""
    parts = _parts(place)
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
