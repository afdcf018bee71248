"""The tool `skill`: the instructions of one of the agent's skills, and the files beside them.

Reads nothing outside that skill's own folder, by whatever way a path leads.
"""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath, PureWindowsPath

from treadle.sandbox.local import LocalSandbox
from treadle.tools.files.text_file import decode, kind_of
from treadle.tools.nearest import did_you_mean
from treadle.tools.skills import Skill
from treadle.tools.tool import ToolContext, ToolError, tool

# Where the instructions of a skill stand.
SKILL_FILE = "SKILL.md"

# The instructions say which files matter; a longer list is of something else.
_LISTED_FILES = 50


@tool(capability="read")
async def skill(name: str, *, path: str = "", context: ToolContext) -> str:
    """Read one of your skills: instructions for a kind of task, written by the person.

    Read a skill before you begin a task that it is for. It may name further files of its own.

    Args:
        name: which skill.
        path: a file of the skill, relative to its folder; without it the instructions themselves.
    """
    found = _found(name, context.session.skills)
    sandbox = await asyncio.to_thread(LocalSandbox, found.folder)
    if not path:
        return found.body + await _files(sandbox)
    if PurePosixPath(path).is_absolute() or PureWindowsPath(path).drive:
        raise ToolError(f"{path} is not relative to the skill's folder; name a file inside it")
    try:
        data = await sandbox.read_bytes(path)
    except IsADirectoryError:
        return "\n".join(await sandbox.names(path)) or "The folder is empty."
    except FileNotFoundError:
        raise ToolError(f"The skill {name} has no file {path}.{await _files(sandbox)}") from None
    text = await asyncio.to_thread(decode, data)
    if text is None:
        raise ToolError(f"{path} is no text ({kind_of(data) or 'binary'}), so it cannot be shown.")
    return text.text


def _found(name: str, skills: tuple[Skill, ...]) -> Skill:
    """Return the skill of this name.

    Raises:
        ToolError: the agent has none.
    """
    names = [each.name for each in skills]
    if name not in names:
        there_are = f"Your skills are: {', '.join(names)}." if names else "You have none."
        raise ToolError(f"You have no skill {name!r}.{did_you_mean(name, names)} {there_are}")
    return skills[names.index(name)]


async def _files(sandbox: LocalSandbox) -> str:
    """Name the files beside the instructions; nothing where there are none."""
    try:
        walk = await sandbox.walk(".", ignored=True)
    except OSError:
        return ""
    files = [file for file in walk.files if file != SKILL_FILE]
    if not files:
        return ""
    more = len(files) - _LISTED_FILES
    listed = "\n".join(files[:_LISTED_FILES]) + (f"\n… and {more} more" if more > 0 else "")
    return f"\n\nFiles of this skill, to be read by `path`:\n{listed}"
