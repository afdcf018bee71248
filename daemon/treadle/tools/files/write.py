"""The tool `write`: a whole text file, new or in place of one that was read."""

from __future__ import annotations

import asyncio
from typing import Any

from treadle.models.attachments import size_in_words
from treadle.tools.files.plan import Plan
from treadle.tools.files.target import Target, check_secrets, encoded, seen_text, target_of
from treadle.tools.files.text_file import TextFile
from treadle.tools.tool import Shown, ToolContext, ToolError, tool


async def _preview(arguments: Any, context: ToolContext) -> Shown:
    plan = await _planned(arguments.path, arguments.content, context)
    return Shown(f"write {_summary(plan)}", plan.diff.text)


@tool(capability="write", preview=_preview, writes=lambda arguments: [arguments.path])
async def write(path: str, content: str, *, context: ToolContext) -> str:
    """Write a whole text file; folders on the way are made.

    A file that exists must have been read before, and keeps its encoding and line ends. Use
    edit to change a part of one.

    Args:
        path: the file, relative to the working folder.
        content: the whole text of it.
    """
    plan = await _planned(path, content, context)
    where = await plan.carry_out(context.sandbox)
    return f"Wrote {_summary(plan)}. {where}".rstrip()


async def _planned(path: str, content: str, context: ToolContext) -> Plan:
    """Make of a call what it would write.

    Raises:
        ToolError: the file must be read first, is no text, or holds just that.
        OSError: no file can be there.
    """
    target = await target_of(path, context)
    data = await asyncio.to_thread(_data, target, content, context)
    if data == target.data:
        raise ToolError(f"{path} holds just that already; nothing was written.")
    return await Plan.of(target, data)


def _summary(plan: Plan) -> str:
    """Say on one line what a plan comes to."""
    new = "a new file, " if plan.target.data is None else ""
    return f"{plan.target.path}: {new}{size_in_words(len(plan.data))}, {plan.diff.stat} lines"


def _data(target: Target, content: str, context: ToolContext) -> bytes:
    """Return what the file will hold, in the way it is written in.

    Raises:
        ToolError: it must be read first, or its encoding cannot hold the text.
    """
    if target.data is None:
        return encoded(content, TextFile(""), target.path)
    file = seen_text(target, context, "before it is written over")
    check_secrets(file.text, content, target.path)
    if file.line_end == "\r\n":
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
    return encoded(content, file, target.path)
