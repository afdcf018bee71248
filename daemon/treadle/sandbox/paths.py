"""Real paths: where a path leads once every link is followed, and whether that is inside."""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: str) -> Path | None:
    """Follow every link of an absolute path; what does not exist is taken by its name.

    Returns:
        The real path, or None where the text is no path at all (NUL, lone surrogates).
    """
    if "\0" in path:
        return None
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return None


def is_within(path: Path, folder: Path) -> bool:
    """Whether one real path is another or lies below it."""
    return path.is_relative_to(folder)
