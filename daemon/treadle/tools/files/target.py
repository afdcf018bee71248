"""The file that a call is about to change: what it holds, and whether it may be changed.

Owns the rule that nobody writes over what this session has not read as it is now, and that what
was hidden from the model is not written back as the word that stood in its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from treadle.secrets import known
from treadle.thread.message import clean
from treadle.tools.files.text_file import TextFile, decode, kind_of
from treadle.tools.spill import SPILLED
from treadle.tools.tool import ToolContext, ToolError

# What `treadle.secrets` puts in the place of a secret.
_MARKER = re.compile(r"\[secret [^\]\n]+\]")

# A hook or a setting in this folder is run by the person's next commit, whatever an agent may run.
_GIT = ".git"


@dataclass(frozen=True, slots=True)
class Target:
    """A file, as it is before a change; `data` is None where there is none yet."""

    path: str
    place: str
    data: bytes | None


async def target_of(path: str, context: ToolContext) -> Target:
    """Look at what a path names.

    Raises:
        ToolError: no file can be there, or it is git's own.
        OSError: it is outside, a folder, no regular file, too large or unreadable.
    """
    if path.startswith(SPILLED):
        raise ToolError(f"{path} is a kept output, not a file: it can only be read.")
    place = await context.sandbox.place(path)
    if any(part.casefold().rstrip(" .") == _GIT for part in place.split("/")):
        raise ToolError(
            f"{path} belongs to git, which runs and believes what lies there: it is only changed "
            "by git itself."
        )
    try:
        return Target(path, place, await context.sandbox.read_bytes(path))
    except FileNotFoundError:
        if path.endswith(("/", "\\")):
            raise ToolError(f"{path!r} names a folder: give the path of a file.") from None
        return Target(path, place, None)


def seen_text(target: Target, context: ToolContext, why: str) -> TextFile:
    """Return the text of a file that is there and that the session knows as it is.

    Args:
        target: the file.
        context: the call's.
        why: what is to be done with it, for the error: `before it is changed`.

    Raises:
        ToolError: it is no text, was never read, or has changed since.
    """
    data, seen = target.data, context.session.seen
    assert data is not None, "a file that is not there was looked for by whoever asks"
    file = decode(data)
    if file is None:
        kind = kind_of(data) or "binary file"
        raise ToolError(f"{target.path} is a {kind}: only text is written. Remove it first.")
    if not seen.knows(target.place):
        raise ToolError(f"{target.path} exists and was not read in this session: read it {why}.")
    if not seen.is_current(target.place, data):
        raise ToolError(f"{target.path} has changed since it was last read: read it again {why}.")
    return file


def encoded(text: str, file: TextFile, path: str) -> bytes:
    """Return the bytes of a file's new text, in its encoding.

    Raises:
        ToolError: its encoding cannot hold the text.
    """
    try:
        return file.encode(clean(text))
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise ToolError(
            f"{path} is in {file.note}, which has no {character!r}: use characters up to U+00FF."
        ) from None


def check_secrets(before: str, after: str, path: str) -> None:
    """Refuse a text in which the word for a secret stands where the secret was.

    Raises:
        ToolError: it would be lost.
    """
    shown = known().redact(before)
    if shown == before:
        return
    for marker in set(_MARKER.findall(shown)):
        if after.count(marker) > before.count(marker):
            raise ToolError(
                f"{path} holds a secret that you were shown as {marker}; this would put that word "
                "in its place. Use edit on other lines, and leave that one as it is."
            )
