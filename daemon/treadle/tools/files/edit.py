"""The tool `edit`: literal replacements in a text file, all of them or none."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from treadle.tools.files.missing import missing
from treadle.tools.files.plan import Plan
from treadle.tools.files.replacing import Replacement, replace_all
from treadle.tools.files.target import Target, check_secrets, encoded, seen_text, target_of
from treadle.tools.tool import Shown, ToolContext, tool

# Each edit looks through the whole file; whoever has more of them writes the file anew.
MAX_EDITS = 100


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old: Annotated[str, Meta(description="the text as it stands in the file, without line numbers")]
    new: Annotated[str, Meta(description="what takes its place")]
    all: Annotated[bool, Meta(description="replace every occurrence, not just the only one")] = (
        False
    )


async def _preview(arguments: Any, context: ToolContext) -> Shown:
    plan = await _planned(arguments.path, arguments.edits, context)
    return Shown(f"edit {arguments.path}: {plan.diff.stat} lines", plan.diff.text)


@tool(capability="write", preview=_preview, writes=lambda arguments: [arguments.path])
async def edit(
    path: str,
    edits: Annotated[list[Edit], Meta(min_length=1, max_length=MAX_EDITS)],
    *,
    context: ToolContext,
) -> str:
    """Replace text in a file that was read before.

    Each `old` must occur exactly once, to the last space, unless `all` is set: take lines around
    it along until it does. Edits apply in order; if one fails, none is made.

    Args:
        path: the file, relative to the working folder.
        edits: the replacements.
    """
    plan = await _planned(path, edits, context)
    where = await plan.carry_out(context.sandbox)
    return f"Edited {path}, {plan.diff.stat} lines:\n{plan.diff.excerpt}\n{where}".rstrip("\n")


async def _planned(path: str, edits: list[Edit], context: ToolContext) -> Plan:
    """Make of a call what it would write.

    Raises:
        ToolError: an edit does not fit, or the file must be read first or is no text.
        OSError: the path leads outside, or to no regular file.
    """
    target = await target_of(path, context)
    if target.data is None:
        raise await missing(path, context.sandbox)
    data = await asyncio.to_thread(_data, target, edits, context)
    return await Plan.of(target, data)


def _data(target: Target, edits: list[Edit], context: ToolContext) -> bytes:
    """Return what the file holds once it is edited.

    Raises:
        ToolError: it must be read first, or an edit does not fit.
    """
    file = seen_text(target, context, "before it is edited")
    wanted = [Replacement(each.old, each.new, each.all) for each in edits]
    text = replace_all(file.text, file.line_end, wanted, target.path)
    check_secrets(file.text, text, target.path)
    return encoded(text, file, target.path)
