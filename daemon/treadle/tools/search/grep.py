"""The tool `grep`: lines by a regular expression."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from typing import Annotated

from msgspec import Meta

from treadle.tools.files.read import spilled
from treadle.tools.search import ripgrep
from treadle.tools.search.finding import Found, find
from treadle.tools.search.globbing import PATTERN_CHARACTERS as GLOB_CHARACTERS
from treadle.tools.search.grep_report import MAX_CONTEXT, MAX_HITS, Report
from treadle.tools.search.matching import PATTERN_CHARACTERS, Pattern, compiled
from treadle.tools.spill import SPILLED
from treadle.tools.tool import ToolContext, ToolError, tool

# Well within a call's deadline, so that what was found until then is told.
SEARCH_SECONDS = 30.0

# Files that are read side by side, and then searched in one go; each may have 16 MiB.
_GROUP = 8

# What is shown where nobody says how much; some 4,000 tokens.
_DEFAULT_HITS = 100


@tool(capability="read")
async def grep(
    pattern: Annotated[str, Meta(min_length=1, max_length=PATTERN_CHARACTERS)],
    path: str = ".",
    glob: Annotated[str, Meta(max_length=GLOB_CHARACTERS)] = "",
    *,
    ignore_case: bool = False,
    context_lines: Annotated[int, Meta(ge=0, le=MAX_CONTEXT)] = 0,
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS)] = _DEFAULT_HITS,
    files_only: bool = False,
    context: ToolContext,
) -> str:
    """Search the text of files for a regular expression, line by line.

    Files that ignore files leave out, hidden and binary ones are not searched.

    Args:
        pattern: the regular expression.
        path: the folder or file to search, relative to the working folder.
        glob: only files whose names match, such as *.py; with a leading !, the others.
        ignore_case: whether letters match in both cases.
        context_lines: how many lines to show around each match.
        limit: how many matching lines to show.
        files_only: show only the names of files with matches.
    """
    wanted = await asyncio.to_thread(compiled, pattern, ignore_case=ignore_case)
    report = Report(limit, context_lines, files_only)
    until = time.monotonic() + SEARCH_SECONDS
    is_late = False
    if path.startswith(SPILLED):
        nothing, notes = f"No line of {path} matches {pattern!r}.", []
        kept = [(path, await spilled(path, context))]
        search: Awaitable[None] = asyncio.to_thread(report.search, kept, wanted, until)
    else:
        found = await find(path, context.sandbox)
        files = await found.matching(glob)
        if not files:
            raise _no_files(path, glob, found)
        nothing = f"No line matches {pattern!r} in {_count(len(files))} of {path!r}."
        notes = found.notes
        search = _search(files, wanted, ignore_case, report, context, until)
    try:
        await search
    except TimeoutError:
        is_late = True
    return report.text(nothing, notes, is_late=is_late)


async def _search(
    files: Sequence[str],
    wanted: Pattern,
    ignore_case: bool,
    report: Report,
    context: ToolContext,
    until: float,
) -> None:
    """Search files in order until the report is full.

    Raises:
        TimeoutError: it is late; what was found until then is in the report.
    """
    try:
        async with aclosing(_groups(files, wanted, ignore_case, context, until)) as groups:
            async for group in groups:
                texts = await _read(group, report, context)
                await asyncio.to_thread(report.search, texts, wanted, until)
                if report.is_full:
                    return
    except asyncio.CancelledError:
        # A worker thread cannot be cancelled; it looks at this before the next file.
        report.is_given_up = True
        raise


def _no_files(path: str, glob: str, found: Found) -> ToolError:
    if glob and found.files:
        return ToolError(
            f"No file of {path!r} matches the glob {glob!r}, of {_count(len(found.files))} there."
        )
    return ToolError(f"There are no files in {path!r} to search, but for hidden and ignored ones.")


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files} files"


async def _groups(
    files: Sequence[str], wanted: Pattern, ignore_case: bool, context: ToolContext, until: float
) -> AsyncGenerator[list[str], None]:
    """Yield the files that may hold a match, in order, some at a time.

    Raises:
        TimeoutError: it is late.
    """
    folder = context.sandbox.folder
    program = await asyncio.to_thread(ripgrep.installed, folder) if folder else None
    if folder is None or program is None or not wanted.is_common:
        for at in range(0, len(files), _GROUP):
            yield list(files[at : at + _GROUP])
        return
    unsaved = set(await context.sandbox.unsaved())
    for batch in ripgrep.batches(files):
        on_disk = [file for file in batch if file not in unsaved]
        hits = await ripgrep.with_matches(
            program,
            wanted.source,
            ignore_case=ignore_case,
            folder=folder,
            places=on_disk,
            until=until,
        )
        maybe = [file for file in batch if hits is None or file in hits or file in unsaved]
        for at in range(0, len(maybe), _GROUP):
            yield maybe[at : at + _GROUP]


async def _read(
    files: Sequence[str], report: Report, context: ToolContext
) -> list[tuple[str, bytes]]:
    """Read files side by side; those that cannot be read are noted."""
    found = await asyncio.gather(
        *(context.sandbox.read_bytes(file) for file in files), return_exceptions=True
    )
    texts: list[tuple[str, bytes]] = []
    for file, data in zip(files, found, strict=True):
        if isinstance(data, bytes):
            texts.append((file, data))
        elif isinstance(data, OSError):
            report.skipped.append(file)
        else:
            raise data
    return texts
