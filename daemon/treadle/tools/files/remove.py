"""The tool `remove`: a file, which `undo` brings back, or an empty folder."""

from __future__ import annotations

import asyncio
from typing import Any

from treadle.models.attachments import size_in_words
from treadle.tools.files.diff import file_diff
from treadle.tools.files.missing import missing
from treadle.tools.files.target import Target, target_of
from treadle.tools.limits import cut_names
from treadle.tools.tool import Shown, ToolContext, ToolError, tool

# What is named of a folder that is not empty.
_NAMED_ENTRIES = 5


async def _preview(arguments: Any, context: ToolContext) -> Shown:
    target = await _planned(arguments.path, context)
    if target is None:
        return Shown(f"remove {arguments.path}: an empty folder")
    diff = await asyncio.to_thread(file_diff, target.path, target.data, None)
    return Shown(f"remove {target.path}: {size_in_words(len(target.data or b''))}", diff.text)


@tool(capability="write", preview=_preview, writes=lambda arguments: [arguments.path])
async def remove(path: str, *, context: ToolContext) -> str:
    """Remove a file or an empty folder; undo brings a file back.

    Args:
        path: the file or folder, relative to the working folder.
    """
    target = await _planned(path, context)
    await context.sandbox.remove(path, before=None if target is None else target.data)
    if target is None:
        return f"Removed the empty folder {path}; undo does not bring it back."
    if await _is_there(target, context):
        return f"Removed the link {path}; the file that it leads to, {target.place}, is left."
    return f"Removed {path}, {size_in_words(len(target.data or b''))}; undo brings it back."


async def _planned(path: str, context: ToolContext) -> Target | None:
    """Look at what is to be removed; None for an empty folder.

    Raises:
        ToolError: there is nothing, or it is a folder that is not empty.
        OSError: it is outside, no regular file, or too large to be kept for undo.
    """
    try:
        target = await target_of(path, context)
    except IsADirectoryError:
        names = await context.sandbox.names(path)
        if names:
            some = cut_names(names, _NAMED_ENTRIES)
            raise ToolError(
                f"{path} is a folder that is not empty: it holds {some}. Remove those first."
            ) from None
        return None
    if target.data is None:
        raise await missing(path, context.sandbox)
    return target


async def _is_there(target: Target, context: ToolContext) -> bool:
    """Whether the file itself is left, because its path was a link."""
    try:
        await context.sandbox.read_bytes(target.place)
    except OSError:
        return False
    return True
