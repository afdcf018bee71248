"""The files below a path, as `glob` and `grep` look at them.

Owns which those are: what the sandbox walks, but for what is hidden, unless somebody names it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from treadle.sandbox.sandbox import WALK_LIMIT_FILES, Sandbox
from treadle.tools.files.missing import missing
from treadle.tools.search.globbing import chosen, is_visible


@dataclass(frozen=True, slots=True)
class Found:
    """What lies below a path.

    Args:
        place: the path's one name.
        files: the files, by place, sorted.
        is_whole: all there are were looked at.
    """

    place: str
    files: list[str]
    is_whole: bool

    @property
    def notes(self) -> list[str]:
        """What to add where not everything was looked at."""
        if self.is_whole:
            return []
        return [
            f"… only the first {WALK_LIMIT_FILES} files were looked at; name a folder further down"
        ]

    def below(self, file: str) -> str:
        """Return a file's path as the folder sees it that was searched."""
        if self.place == ".":
            return file
        return (
            file.removeprefix(f"{self.place}/") if file != self.place else file.rpartition("/")[2]
        )

    async def matching(self, pattern: str) -> list[str]:
        """Return the files that a name pattern names; without one, those that are not hidden.

        Raises:
            ToolError: it is no pattern.
        """
        if self.files == [self.place] and not pattern:
            return self.files
        by_name = {self.below(file): file for file in self.files}
        if not pattern:
            return [file for name, file in by_name.items() if is_visible(name)]
        names = await asyncio.to_thread(chosen, by_name, pattern)
        return [by_name[name] for name in names]


async def find(path: str, sandbox: Sandbox, *, ignored: bool = False) -> Found:
    """Find the files at and below a path.

    Raises:
        ToolError: there is nothing.
        OSError: it is outside, or neither a file nor a folder.
    """
    try:
        walk = await sandbox.walk(path, ignored=ignored)
    except FileNotFoundError:
        raise await missing(path, sandbox) from None
    return Found(await sandbox.place(path), walk.files, walk.is_whole)
