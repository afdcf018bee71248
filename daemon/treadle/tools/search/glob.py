"""The tool `glob`: files by their names."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from treadle.sandbox.sandbox import Sandbox
from treadle.tools.limits import cut_names
from treadle.tools.nearest import nearest
from treadle.tools.search.finding import Found, find
from treadle.tools.search.globbing import PATTERN_CHARACTERS, plain_folders
from treadle.tools.tool import ToolContext, tool

# More names than this nobody reads; some 10,000 tokens.
MAX_NAMES = 1000
# What is named of files that are left out.
_NAMED_IGNORED = 10


@tool(capability="read")
async def glob(
    pattern: Annotated[str, Meta(min_length=1, max_length=PATTERN_CHARACTERS)],
    path: str = ".",
    *,
    context: ToolContext,
) -> str:
    """Find files by a name pattern such as *.py or src/**/*.{ts,tsx}.

    A pattern without a slash matches names in all folders below. Files that ignore files leave
    out are not found, hidden ones only by a pattern that names their dot.

    Args:
        pattern: the name pattern.
        path: the folder to look in, relative to the working folder.
    """
    found = await find(path, context.sandbox)
    files = await found.matching(pattern)
    if not files:
        return await _nothing(pattern, path, found, context.sandbox)
    lines = files[:MAX_NAMES]
    if len(files) > MAX_NAMES:
        lines.append(f"… {len(files) - MAX_NAMES} more; use a narrower pattern or a path")
    return "\n".join([*lines, *found.notes])


async def _nothing(pattern: str, path: str, found: Found, sandbox: Sandbox) -> str:
    """Say that nothing matches, and what may have been meant."""
    said = f"No file matches {pattern!r} in {path!r}, of {len(found.files)} there."
    ignored = await (await find(path, sandbox, ignored=True)).matching(pattern)
    if ignored:
        return f"{said} Left out by ignore files: {cut_names(ignored, _NAMED_IGNORED)}"
    if near := _near_folders(pattern, found):
        said += f" Did you mean {' or '.join(near)}?"
    return "\n".join([said, *found.notes])


def _near_folders(pattern: str, found: Found) -> list[str]:
    """Return folders with names like the first of the pattern's that does not exist."""
    parts = [found.below(file).split("/")[:-1] for file in found.files]
    way: list[str] = []
    for folder in plain_folders(pattern):
        siblings = {
            names[len(way)] for names in parts if names[: len(way)] == way and names[len(way) :]
        }
        if folder not in siblings:
            return ["/".join([*way, near]) + "/" for near in nearest(folder, sorted(siblings))]
        way.append(folder)
    return []
