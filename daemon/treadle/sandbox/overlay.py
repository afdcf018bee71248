"""A sandbox as the editor of whoever prompts shows it: unsaved text stands in for its file.

Owns when the disk counts, when the editor does, and which way a change goes. Refuses to know
editors, and what text is: that side is `Buffers`. What may be reached is the inner sandbox's to
judge: a document outside it is never looked at.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from treadle.sandbox import sandbox as seam

# What whoever asked for a change is told of where it went, or why it went nowhere: only the
# person at the editor sees that otherwise.
IN_EDITOR = (
    "The change is in the editor, unsaved: the file on the disk, which commands see, is as before "
    "until the person saves it."
)
NOT_AS_WRITTEN = (
    "The editor took the change, and shows another text since: read the file again. It is unsaved, "
    "so the file on the disk is as before."
)
ON_DISK = "It was written to the disk: {why}, where the file is open without unsaved text."
KEPT_UNSAVED = "the file has unsaved text in the editor, and {why}; nothing was changed"
MAY_FOLLOW = "{why}, and may still make the change; read the file again"
NOT_REMOVED = (
    "the file has unsaved text in the editor, which would be all that is left of it; nothing was "
    "removed. Ask the person to save or close it"
)


class NotApplied(Exception):
    """The editor did not make a change.

    Args:
        why: a clause without a full stop.
        may_follow: it may still make it, because it only said nothing.
    """

    def __init__(self, why: str, *, may_follow: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.may_follow = may_follow


class Buffers(Protocol):
    """The documents that are open in one editor.

    Contract: nothing here raises but as it says; an editor that is gone has nothing open.
    """

    async def files(self) -> Collection[Path]:
        """Return the files that are open, as the editor names them; they need not be there."""

    async def unsaved(self, file: Path, disk: bytes | None) -> bytes | None:
        """Return what an open file will hold once it is saved as it is.

        Args:
            file: one of `files`.
            disk: what it holds; None where there is nothing.

        Returns:
            None where the disk is right: nothing was typed since it was opened or saved.
        """

    async def apply(self, file: Path, before: bytes, after: bytes) -> bool:
        """Change the text of an open file; nothing is saved.

        Returns:
            Whether the editor shows just that now.

        Raises:
            NotApplied: it has changed nothing, for it cannot, does not want to, shows another
                text than `before`, or is gone.
        """


class Overlay:
    """A sandbox on the disk with an editor's unsaved text over it.

    Args:
        inner: where the files lie, and what judges paths.
        buffers: what is open.
    """

    folder: Path | None

    def __init__(self, inner: seam.Sandbox, buffers: Buffers) -> None:
        self.folder = inner.folder
        self._inner = inner
        self._buffers = buffers
        self._places: dict[Path, str | None] = {}

    async def place(self, path: str) -> str:
        """Return the one name of a file; see the seam."""
        return await self._inner.place(path)

    async def read_bytes(self, path: str) -> bytes:
        """Return the whole of a file, unsaved text included; see the seam for what is raised."""
        file = await self._open_file(path)
        if file is None:
            return await self._read_inner(path)
        disk = await self._on_disk(path)
        shown = await self._buffers.unsaved(file, disk)
        if shown is None:
            return await self._inner.read_bytes(path) if disk is None else disk
        seam.check_size(shown, path)
        return shown

    async def names(self, path: str) -> list[str]:
        """List a folder, new files that are not saved yet included; see the seam."""
        new = await self._new_below(path)
        try:
            names = set(await self._inner.names(path))
        except FileNotFoundError:
            if not new:
                raise
            names = set()
        for rest in new.values():
            name, slash, _ = rest.partition("/")
            names.add(name + slash)
        return sorted(names)

    async def walk(self, path: str, *, ignored: bool = False) -> seam.Walk:
        """Find files, new ones that are not saved yet included; see the seam.

        Those are found whatever the ignore files say: they are open before the person's eyes.
        """
        try:
            walk = await self._inner.walk(path, ignored=ignored)
        except FileNotFoundError:
            new = await self._new_below(path)
            if not new:
                raise
            return seam.Walk(sorted(new), is_whole=True)
        new = await self._new_below(path, known=walk.files)
        return seam.Walk(sorted([*walk.files, *new]), walk.is_whole) if new else walk

    async def write_bytes(self, path: str, data: bytes, *, before: bytes | None) -> str:
        """Put a file there: into the editor where it is open in it, else on the disk.

        Raises:
            Changed: as the seam says; or the editor has unsaved text, and did not take it.
            OSError: as the seam says; or it is not known whether the editor took it.
        """
        file = None if path.endswith("/") else await self._open_file(path)
        if file is None:
            return await self._inner.write_bytes(path, data, before=before)
        seam.check_size(data, path)
        if await self._held(file, path) != before:
            raise seam.Changed(errno.EBUSY, seam.CHANGED, path)
        try:
            is_shown = await self._buffers.apply(file, before or b"", data)
        except NotApplied as refused:
            if refused.may_follow:
                raise OSError(errno.EBUSY, MAY_FOLLOW.format(why=refused.why), path) from None
            await self._check_saved(file, path, refused.why)
            word = await self._inner.write_bytes(path, data, before=before)
            return word or ON_DISK.format(why=refused.why)
        return IN_EDITOR if is_shown else NOT_AS_WRITTEN

    async def remove(self, path: str, *, before: bytes | None) -> None:
        """Remove a file; one that was never saved becomes empty in the editor. See the seam.

        Raises:
            Changed: as the seam says; or the editor has unsaved text of it.
            OSError: as the seam says.
        """
        file = await self._open_file(path)
        disk = None if file is None else await self._on_disk(path)
        shown = None if file is None else await self._buffers.unsaved(file, disk)
        if file is None or shown is None:
            await self._inner.remove(path, before=before)
            return
        if shown != before:
            raise seam.Changed(errno.EBUSY, seam.CHANGED, path)
        if disk is not None:
            raise seam.Changed(errno.EBUSY, NOT_REMOVED, path)
        try:
            await self._buffers.apply(file, shown, b"")
        except NotApplied as refused:
            raise seam.Changed(errno.EBUSY, KEPT_UNSAVED.format(why=refused.why), path) from None

    async def unsaved(self) -> Collection[str]:
        """Return the places of all that is open; see the seam."""
        return [*await self._open_files(), *await self._inner.unsaved()]

    async def _open_file(self, path: str) -> Path | None:
        """Return the open file that a path leads to.

        Raises:
            OSError: it leads outside.
        """
        opened = await self._open_files()
        return opened.get(await self._inner.place(path)) if opened else None

    async def _open_files(self) -> dict[str, Path]:
        """Return what is open in the sandbox, by place."""
        files = await self._buffers.files()
        unknown = [file for file in files if file not in self._places]
        places = await asyncio.gather(*map(self._place_of, unknown))
        self._places.update(zip(unknown, places, strict=True))
        return {place: file for file in files if (place := self._places[file]) is not None}

    async def _place_of(self, file: Path) -> str | None:
        """Return the place of an open file; None where it lies outside."""
        try:
            return await self._inner.place(str(file))
        except OSError:
            return None

    async def _new_below(self, path: str, known: Iterable[str] = ()) -> dict[str, str]:
        """Return the files at and below a path that are only in the editor: place, and way to it.

        Args:
            path: where.
            known: places that are on the disk.
        """
        opened = await self._open_files()
        if not opened:
            return {}
        above = await self._inner.place(path)
        for place in known:
            opened.pop(place, None)
        new: dict[str, str] = {}
        for place, file in opened.items():
            rest = place if above == "." else place.removeprefix(above).removeprefix("/")
            is_below = above in (".", place) or place.startswith(f"{above}/")
            if is_below and await self._is_new(file, place):
                new[place] = rest
        return new

    async def _is_new(self, file: Path, place: str) -> bool:
        try:
            disk = await self._on_disk(place)
        except OSError:
            return False
        return disk is None and await self._buffers.unsaved(file, None) is not None

    async def _read_inner(self, path: str) -> bytes:
        """Return a file that is not open.

        Raises:
            IsADirectoryError: it is a folder, maybe one that only a new file will make.
            OSError: as the seam says.
        """
        try:
            return await self._inner.read_bytes(path)
        except FileNotFoundError:
            if await self._new_below(path):
                raise IsADirectoryError(errno.EISDIR, seam.IS_A_FOLDER, path) from None
            raise

    async def _held(self, file: Path, path: str) -> bytes | None:
        """Return what an open file holds, the editor's text where that is unsaved."""
        disk = await self._on_disk(path)
        shown = await self._buffers.unsaved(file, disk)
        return disk if shown is None else shown

    async def _on_disk(self, path: str) -> bytes | None:
        try:
            return await self._inner.read_bytes(path)
        except FileNotFoundError:
            return None

    async def _check_saved(self, file: Path, path: str, why: str) -> None:
        """Refuse to write under unsaved text.

        Raises:
            Changed: there is some.
        """
        if await self._buffers.unsaved(file, await self._on_disk(path)) is not None:
            raise seam.Changed(errno.EBUSY, KEPT_UNSAVED.format(why=why), path)
