"""The tool `undo`: takes back the last change that this session's tools made to files.

Owns when that is safe: only where the files are as the change left them. What the shell, the
person or another session did is not touched.
"""

from __future__ import annotations

import asyncio
from typing import Any

from treadle.tools.files.changes import Change, FileChange
from treadle.tools.files.diff import Diff, file_diff
from treadle.tools.tool import Shown, ToolContext, ToolError, tool


async def _preview(arguments: Any, context: ToolContext) -> Shown:
    session = context.session
    # A call that is writing has not noted its change yet: its file would seem somebody else's.
    async with session.writing:
        last = _last(arguments.redo, context)
        session.changes.promise(context.call.id, last)
        change = await _checked(last, arguments.redo, context)
    diffs = [await asyncio.to_thread(_diff, file) for file in change.files]
    word = "do again" if arguments.redo else "undo"
    return Shown(f"{word}: {change.what}", "\n".join(diff.text for diff in diffs))


@tool(capability="write", preview=_preview)
async def undo(redo: bool = False, *, context: ToolContext) -> str:
    """Take back the last change that write, edit or remove made in this session.

    Call it again for the change before that one.

    Args:
        redo: do again what was undone last.
    """
    session = context.session
    # Its changes are noted otherwise than those of other tools, so the lock is taken here.
    async with session.writing:
        last = _last(redo, context)
        if (session.changes.promised(context.call.id) or last) is not last:
            raise ToolError("Another change was made meanwhile, so nothing was undone: ask again.")
        change = await _checked(last, redo, context)
        try:
            where = await _apply(change, context)
        finally:
            # A cancel comes through when the files are written already.
            if await _is_done(change, context):
                (session.changes.note_redone if redo else session.changes.note_undone)()
    word = "Did again" if redo else "Undid"
    parts = [
        f"{file.place}: {(await asyncio.to_thread(_diff, file)).stat} lines"
        if file.after is not None
        else f"{file.place}: removed"
        for file in change.files
    ]
    return f"{word} {change.what}; {'; '.join(parts)}. {where}".rstrip()


def _diff(file: FileChange) -> Diff:
    return file_diff(file.place, file.before, file.after)


def _last(redo: bool, context: ToolContext) -> Change:
    """Return the change that is to be taken back, or done again.

    Raises:
        ToolError: there is none.
    """
    changes = context.session.changes
    change = changes.last_undone() if redo else changes.last()
    if change is None:
        raise ToolError(
            "Nothing was undone that could be done again."
            if redo
            else "There is nothing to undo: no tool of this session has changed a file."
        )
    return change


async def _checked(change: Change, redo: bool, context: ToolContext) -> Change:
    """Return what is to be done: the change itself, or the other way round.

    Raises:
        ToolError: a file is not as the change left it; from then on the change is passed over,
            lest it bars the way to those of other files.
    """
    wanted = change
    if not redo:
        turned = tuple(FileChange(file.place, file.after, file.before) for file in change.files)
        wanted = Change(change.what, turned)
    for file in wanted.files:
        if not await _holds(file.place, file.before, context):
            context.session.changes.pass_over(change)
            raise ToolError(
                f"{file.place} was changed by somebody else since ({change.what}), so nothing was "
                "undone or done again. Read it, and edit it by hand; "
                f"{'redo' if redo else 'undo'} passes over this change now: "
                "call it again for the next one."
            )
    return wanted


async def _apply(change: Change, context: ToolContext) -> str:
    """Do it to all its files; where one fails, those before it are put back.

    Returns:
        Where it went, as the sandbox says it.

    Raises:
        OSError: a file could not be changed.
    """
    done: list[FileChange] = []
    said: dict[str, None] = {}
    try:
        for file in change.files:
            said[await _put(file.place, file.before, file.after, context)] = None
            done.append(file)
    except OSError:
        for file in reversed(done):
            await _put(file.place, file.after, file.before, context)
        raise
    return " ".join(filter(None, said))


async def _is_done(change: Change, context: ToolContext) -> bool:
    """Whether its files are as a change leaves them."""
    try:
        return all([await _holds(file.place, file.after, context) for file in change.files])
    except OSError:
        return False


async def _put(place: str, before: bytes | None, after: bytes | None, context: ToolContext) -> str:
    """Have a file hold something, or be gone; return where it went, as the sandbox says it."""
    where = ""
    if after is None:
        await context.sandbox.remove(place, before=before)
    else:
        where = await context.sandbox.write_bytes(place, after, before=before)
    context.session.seen.note(place, after)
    return where


async def _holds(place: str, data: bytes | None, context: ToolContext) -> bool:
    """Whether a file holds just that; None where there is to be none.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return await context.sandbox.read_bytes(place) == data
    except FileNotFoundError:
        return data is None
    except (IsADirectoryError, NotADirectoryError):
        return False
