"""What to say of a file or folder that is not there: which names are near.

Owns those words. Refuses to know which tool was asked.
"""

from __future__ import annotations

import posixpath

from treadle.sandbox.sandbox import Sandbox
from treadle.tools.nearest import nearest
from treadle.tools.tool import ToolError

# What is named of the folder of a missing file.
_NAMED_ENTRIES = 10


async def missing(path: str, sandbox: Sandbox) -> ToolError:
    """Make the error for a path where nothing is, naming what is there."""
    folder, name = posixpath.split(path.rstrip("/"))
    try:
        names = await sandbox.names(folder or ".")
    except OSError:
        return ToolError(f"There is no file {path!r}, nor a folder {folder!r}.")
    if near := nearest(name, names):
        spelled = (posixpath.join(folder, other) for other in near)
        said = f"Did you mean {', '.join(spelled)}?"
    elif names:
        said = "Its folder holds: " + ", ".join(names[:_NAMED_ENTRIES])
        said += ", …" if len(names) > _NAMED_ENTRIES else "."
    else:
        said = "Its folder is empty."
    return ToolError(f"There is no file {path!r}. {said}")
