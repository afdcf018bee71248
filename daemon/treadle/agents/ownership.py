"""Whether a file is the person's alone, so that what it says may be run or believed.

Refuses to know what it says. On Windows a profile's folders are the person's by default, and
there is nothing here to be seen of it.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path


def why_not_ours(path: Path, root: Path) -> str | None:
    """Tell why a file may be another's words; None where it is the person's alone.

    Looked at are the file, the folders that lead to it from `root` on, and that in which it
    really lies, for whoever can write to one of these can put another file in its place.

    Args:
        path: the file, or a link to it.
        root: a folder above it.

    Raises:
        OSError: one of them cannot be looked at.
    """
    if sys.platform == "win32":
        return None
    between = [folder for folder in path.parents if folder == root or root in folder.parents]
    for each in (path, *between, Path(os.path.realpath(path)).parent):
        status = each.stat()
        # What is root's cannot be kept from root anyway.
        if status.st_uid not in (os.getuid(), 0):
            return f"{each} belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"other users can write to {each}; run: chmod go-w {shlex.quote(str(each))}"
    return None
