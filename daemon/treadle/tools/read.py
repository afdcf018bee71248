"""The tool `read`: a text file with line numbers, or the entries of a folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from treadle.sandbox.sandbox import Sandbox
from treadle.secrets import known
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.nearest import nearest
from treadle.tools.tool import ToolContext, ToolError, tool

# The field's standard: what one call shows at most.
MAX_LINES = 2000
# A longer line is data, not text; its beginning tells what it is.
MAX_LINE_CHARACTERS = 2000
# Kept free for the hint that ends a page, so that the pipeline never cuts it off.
_HINT_BYTES = 200
# Where a NUL gives a binary file away; later ones are rare in practice.
_SNIFFED_BYTES = 8192
# What is named of the folder of a missing file.
_NAMED_ENTRIES = 10


@tool(capability="read")
async def read(
    path: str,
    *,
    offset: Annotated[int, Meta(ge=1)] = 1,
    limit: Annotated[int, Meta(ge=1)] = MAX_LINES,
    context: ToolContext,
) -> str:
    """Read a text file, its lines numbered, or list a folder.

    At most 2000 lines and 50 KiB are shown at once; the end says how to go on.

    Args:
        path: the file or folder, relative to the working folder.
        offset: the first line to show, counted from 1.
        limit: how many lines to show.
    """
    try:
        data = await context.sandbox.read_bytes(path)
    except IsADirectoryError:
        return await _folder(path, offset, limit, context.sandbox)
    except FileNotFoundError:
        raise await _missing(path, context.sandbox) from None
    lines = await asyncio.to_thread(_lines, data, path)
    if not lines:
        return f"{path} is an empty file"
    page = _page(lines, offset, limit, path)
    return "\n".join([*page, *_hint(offset, len(page), len(lines))])


async def _folder(path: str, offset: int, limit: int, sandbox: Sandbox) -> str:
    names = await sandbox.names(path)
    if not names:
        return f"{path} is an empty folder"
    shown = [line.partition("\t")[2] for line in _page(names, offset, limit, path)]
    return "\n".join([f"{path} is a folder:", *shown, *_hint(offset, len(shown), len(names))])


async def _missing(path: str, sandbox: Sandbox) -> ToolError:
    """Make the error for a file that is not there, naming what is."""
    folder, name = os.path.split(path.rstrip("/"))
    try:
        names = await sandbox.names(folder or ".")
    except OSError:
        return ToolError(f"There is no file {path!r}, nor a folder {folder!r}.")
    if near := nearest(name, names):
        said = "Did you mean " + ", ".join(os.path.join(folder, other) for other in near) + "?"  # noqa: PTH118 - spelled as the model spells it
    elif names:
        said = "Its folder holds: " + ", ".join(names[:_NAMED_ENTRIES])
        said += ", …" if len(names) > _NAMED_ENTRIES else "."
    else:
        said = "Its folder is empty."
    return ToolError(f"There is no file {path!r}. {said}")


def _lines(data: bytes, path: str) -> list[str]:
    """Split a file at line feeds only: other separators are part of the text.

    Raises:
        ToolError: it is no text.
    """
    if b"\0" in data[:_SNIFFED_BYTES]:
        raise ToolError(f"{path} is a binary file of {len(data)} bytes; only text can be read.")
    # Before lines are cut and numbered: half a secret is not recognised any more.
    text = known().redact(data.decode("utf-8-sig", errors="replace"))
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _page(lines: list[str], offset: int, limit: int, path: str) -> list[str]:
    """Return numbered lines from `offset` on, as many as the bounds allow and at least one.

    Raises:
        ToolError: the offset lies behind the end.
    """
    if offset > len(lines):
        raise ToolError(f"{path} has only {len(lines)} lines; use an offset up to that.")
    left_bytes = RESULT_LIMIT_BYTES - _HINT_BYTES - len(path.encode(errors="replace"))
    page: list[str] = []
    for line in _numbered(lines, offset, min(limit, MAX_LINES)):
        # A name that is no UTF-8 becomes text only behind us; it must not hide the other names.
        left_bytes -= len(line.encode(errors="replace")) + 1
        if left_bytes < 0 and page:
            break
        page.append(line)
    return page


def _numbered(lines: list[str], offset: int, limit: int) -> Iterator[str]:
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        cut = len(line) - MAX_LINE_CHARACTERS
        rest = f"… [{cut} more characters in this line]" if cut > 0 else ""
        yield f"{number}\t{line[:MAX_LINE_CHARACTERS]}{rest}"


def _hint(offset: int, shown: int, total: int) -> list[str]:
    """Return the line that says how to go on; none at the end."""
    after = offset + shown
    if after > total:
        return []
    return [f"… {total - after + 1} more of {total}; use offset={after}"]
