"""Real paths: where a path leads once every link is followed, whether that is inside, its name.

Refuses to open anything.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath
from typing import Literal

# What Windows takes for a device in whatever folder, and with whatever extension. The small
# digits are devices too.
_DEVICES = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
    | {f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³"}
)

# What no Windows name holds; a colon would name a stream that hides behind a file.
_NOT_IN_WINDOWS_NAMES = frozenset('<>:"|?*') | frozenset(map(chr, range(32)))

# How one letter with an accent is written in one part or in two; macOS takes both for the same.
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


def real_path(path: str) -> Path | None:
    """Follow every link of an absolute path; what does not exist is taken by its name.

    Returns:
        The real path, or None where the text is no path at all (NUL, lone surrogates).
    """
    if "\0" in path:
        return None
    try:
        os.fsencode(path)
        return Path(os.path.realpath(path))
    except ValueError:
        return None


def is_within(path: Path, folder: Path) -> bool:
    """Whether one real path is another or lies below it."""
    return parts_below(path, folder) is not None


def parts_below(path: Path, folder: Path) -> tuple[str, ...] | None:
    """Return the way from one real path to another; None where it does not lie below it.

    Where the disk ignores case, so does this: the folder is also known by what it is.
    """
    if path.is_relative_to(folder):
        return path.relative_to(folder).parts
    for parent in (path, *path.parents):
        if _folded(parent.name) == _folded(folder.name) and _is_same(parent, folder):
            return path.relative_to(parent).parts
    return None


def is_refused_here(path: str, root: Path) -> bool:
    """Whether this system would take a path for something other than a file below a folder."""
    return sys.platform == "win32" and windows_refuses(path, str(root))


def windows_refuses(path: str, root: str) -> bool:
    r"""Whether Windows would take a path for a device, a stream, a share or another name.

    Following a path to a share (`\\host\share`) would already speak to that host.

    Source: "Naming Files, Paths, and Namespaces" in the Windows documentation.
    """
    pure = PureWindowsPath(path)
    if pure.drive and pure.drive.casefold() != PureWindowsPath(root).drive.casefold():
        return True
    rest = path[len(pure.drive) :].replace("\\", "/")
    return any(_is_strange(name) for name in rest.split("/") if name not in ("", ".", ".."))


def spelled_below(root: Path, parts: Sequence[str]) -> tuple[str, ...]:
    """Return a real path's parts as its folders spell them, where the disk ignores case.

    Args:
        root: a real folder.
        parts: the way from it, links followed; it need not exist.
    """
    spelled: list[str] = []
    for part in parts:
        spelled.append(_spelled(root.joinpath(*spelled), part))
    return tuple(spelled)


def _is_strange(name: str) -> bool:
    stem = name.partition(".")[0].rstrip(" ").upper()
    return name[-1] in ". " or stem in _DEVICES or not _NOT_IN_WINDOWS_NAMES.isdisjoint(name)


def _spelled(folder: Path, name: str) -> str:
    """Return a name as its folder lists it; as it is where it is missing, or cannot be told."""
    try:
        if not _is_known_otherwise(folder, name):
            return name
        names = os.listdir(folder)  # noqa: PTH208 - names are what is wanted
    except OSError:
        return name
    if name in names:
        return name
    return next((other for other in sorted(names) if _folded(other) == _folded(name)), name)


def _is_known_otherwise(folder: Path, name: str) -> bool:
    """Whether an entry is also found by its name in other letters."""
    there = os.lstat(folder / name)
    for other in (name.swapcase(), *(unicodedata.normalize(form, name) for form in _FORMS)):
        try:
            if other != name and os.path.samestat(os.lstat(folder / other), there):
                return True
        except OSError:
            continue
    return False


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
