"""Instructions that lie in files of their own: `@include path.md`, and what comes of it.

A line of instructions that begins with `@include ` is replaced by the file that it names:

    @include shared/tone.md

The path is relative to the file in which the line stands, and leads to a file inside the config
folder (for an agent of a workspace: inside its `.treadle/agents`), links followed. What is
included may include in turn. Only a line that begins so counts: one that is indented is text.
The last line end of an included file is left out, as that of an agent's file is.

Owns the syntax and its bounds. Refuses to know where files may lie: a shelf does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treadle.agents.cached_file import ReadFile
from treadle.agents.checks import FILE_LIMIT_BYTES, shown
from treadle.agents.front_matter import FrontMatterError, decode, without_last_line_end

# Instructions, parts of them, and parts of those: what is deeper nobody finds again.
MOST_DEPTH = 4

# More pieces than anybody writes by hand; a slip that includes without end stops here.
MOST_FILES = 32

_WORD = "@include"


class Shelf(Protocol):
    """Where included files lie."""

    def take(self, beside: Path, name: str) -> tuple[Path, bytes]:
        """Return the file of this name, relative to the one that includes it, and what it holds.

        Contract: raises ValueError whose text ends the sentence `@include <name>: …`; what it
        returns as a path is the same for every way to the same file.
        """


@dataclass(frozen=True, slots=True)
class FolderShelf:
    """The files of a folder, by real path.

    Args:
        root: the folder that no file may lie outside.
        read: reads one.
    """

    root: Path
    read: ReadFile

    def take(self, beside: Path, name: str) -> tuple[Path, bytes]:
        """Return a file below the root and what it holds.

        Raises:
            ValueError: it lies elsewhere or cannot be read.
        """
        path = beside.parent / name
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(self.root)):
            raise ValueError(f"the file must lie inside {self.root}")
        try:
            # By the name that was written: the link that it may be is part of what can change.
            return real, self.read(path)
        except FileNotFoundError:
            raise ValueError(f"there is no file {path}") from None
        except OSError as error:
            raise ValueError(f"it cannot be read: {error.strerror or error}") from error


def expand(text: str, path: Path, first_line: int, shelf: Shelf) -> str:
    """Return instructions with every included file in its place.

    Args:
        text: the instructions.
        path: the file in which they stand.
        first_line: the number of their first line in it.
        shelf: where included files lie.

    Raises:
        FrontMatterError: something cannot be included; the message names it, and the line.
    """
    return _Expansion(shelf, (Path(os.path.realpath(path)),)).expand(text, path, first_line)


@dataclass(slots=True)
class _Expansion:
    """One agent's instructions on their way: where they are now, and what was taken so far."""

    shelf: Shelf
    within: tuple[Path, ...]
    files: int = 0
    size_bytes: int = 0

    def expand(self, text: str, path: Path, first_line: int) -> str:
        lines = text.split("\n")
        for number, line in enumerate(lines):
            name = _name(line)
            if name is not None:
                lines[number] = self._included(name, path, first_line + number)
        return "\n".join(lines)

    def _included(self, name: str, path: Path, number: int) -> str:
        """Return what the line of this number is replaced by.

        Raises:
            FrontMatterError: it cannot be.
        """
        if not name or not name.isprintable():
            given = f"not {shown(name)}" if name else "on the same line"
            raise FrontMatterError(
                f"@include must name a file, as in @include tone.md, {given}", number
            )
        try:
            return self._taken(name, path)
        except ValueError as error:
            raise FrontMatterError(f"@include {name}: {error}", number) from error
        except FrontMatterError as error:
            where = f"its line {error.line}: " if error.line else ""
            raise FrontMatterError(f"@include {name}: {where}{error.message}", number) from error

    def _taken(self, name: str, path: Path) -> str:
        """Return what a file says, with what it includes in its place.

        Raises:
            ValueError: it cannot be had.
            FrontMatterError: something in it is wrong.
        """
        if len(self.within) > MOST_DEPTH:
            raise ValueError(f"files are included at most {MOST_DEPTH} deep")
        real, data = self.shelf.take(path, name)
        if real in self.within:
            raise ValueError("it includes itself, by itself or through others")
        self.files += 1
        self.size_bytes += len(data)
        if self.files > MOST_FILES:
            raise ValueError(f"at most {MOST_FILES} files can be included in all")
        if self.size_bytes > FILE_LIMIT_BYTES:
            raise ValueError(f"what is included has more than {FILE_LIMIT_BYTES // 1024} KiB")
        self.within = (*self.within, real)
        try:
            return self.expand(without_last_line_end(decode(data)), path.parent / name, 1)
        finally:
            self.within = self.within[:-1]


def _name(line: str) -> str | None:
    """Return what a line names to be included, maybe nothing; None where it is any other line."""
    rest = line.removeprefix(_WORD)
    if rest == line or (rest.strip() and rest[0] not in " \t"):
        return None
    return rest.strip()
