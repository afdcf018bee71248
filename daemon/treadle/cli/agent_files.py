"""What commands share that read agents' files: whose they read, and that nobody else prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what Python agents print while they are loaded out of what a program reads of us."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def current_workspace() -> list[Path]:
    """Return the folder that a command is run in, as the workspace that it means."""
    try:
        return [Path.cwd()]
    except FileNotFoundError:
        return []
