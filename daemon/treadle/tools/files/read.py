"""The tool `read`: a text file with line numbers, or the entries of a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from treadle.models.attachments import size_in_words
from treadle.sandbox.sandbox import Sandbox
from treadle.secrets import known
from treadle.tools.files.missing import missing
from treadle.tools.files.text_file import TextFile, decode, kind_of, split_lines
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.spill import SPILLED
from treadle.tools.tool import ToolContext, ToolError, tool

# The field's standard: what one call shows at most.
MAX_LINES = 2000
# A longer line is data, not text; its beginning tells what it is.
MAX_LINE_CHARACTERS = 2000
# Kept free for the lines that end a page, so that the pipeline never cuts them off.
_HINT_BYTES = 300


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
    if path.startswith(SPILLED):
        return await _file(path, await spilled(path, context), offset, limit)
    try:
        data = await context.sandbox.read_bytes(path)
    except IsADirectoryError:
        return await _folder(path, offset, limit, context.sandbox)
    except FileNotFoundError:
        raise await missing(path, context.sandbox) from None
    shown = await _file(path, data, offset, limit)
    context.session.seen.note(await context.sandbox.place(path), data)
    return shown


async def spilled(path: str, context: ToolContext) -> bytes:
    """Return an output that was too long to show.

    Raises:
        ToolError: it is not kept.
    """
    data = await context.session.spill.read(path)
    if data is None:
        raise ToolError(f"There is no kept output {path!r}: it is gone, or never was.")
    return data


async def _file(path: str, data: bytes, offset: int, limit: int) -> str:
    """Show a page of a text file.

    Raises:
        ToolError: it is no text, or the offset lies behind its end.
    """
    file = await asyncio.to_thread(decode, data)
    if file is None:
        raise _no_text(path, data)
    # Before lines are cut and numbered: half a secret is not recognised any more.
    lines = await asyncio.to_thread(lambda: split_lines(known().redact(file.text)))
    if not lines:
        return f"{path} is an empty file"
    page = _page(lines, offset, limit, path)
    return "\n".join([*page, *_hint(offset, len(page), len(lines)), *_note(file)])


async def _folder(path: str, offset: int, limit: int, sandbox: Sandbox) -> str:
    """List a part of a folder."""
    names = await sandbox.names(path)
    if not names:
        return f"{path} is an empty folder"
    shown = [line.partition("\t")[2] for line in _page(names, offset, limit, path)]
    return "\n".join([f"{path} is a folder:", *shown, *_hint(offset, len(shown), len(names))])


def _no_text(path: str, data: bytes) -> ToolError:
    """Say what a file is that cannot be shown, and what to do about it."""
    kind, size = kind_of(data) or "binary file", size_in_words(len(data))
    if kind.endswith("image"):
        what = "A tool's result cannot hold images: ask the person to attach it to a message."
    elif kind == "PDF document":
        what = "Only text can be read: have it converted first, with pdftotext for example."
    else:
        what = "Only text can be read."
    return ToolError(f"{path} is a {kind} of {size}. {what}")


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
    """Yield lines with their numbers, each cut where it is too long."""
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


def _note(file: TextFile) -> list[str]:
    """Return the line that names an unusual encoding; none for UTF-8."""
    return (
        [f"[the file is in {file.note}, no UTF-8; edit and write keep that]"] if file.note else []
    )
