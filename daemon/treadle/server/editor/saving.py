"""What a document is as a file: the bytes of its text, and whether a file holds just that.

Editors keep a text's encoding, mark and line ends to themselves, and put them back when they
save. So what they show is compared without those, and written as the file has it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.sandbox.holding import read_below
from treadle.sandbox.sandbox import READ_LIMIT_BYTES
from treadle.tools.files.text_file import TextFile, decode

if TYPE_CHECKING:
    from treadle.server.editor.documents import Document

# Some editors show a byte order mark as the first character.
_MARK = "\ufeff"


def plain(text: str) -> str:
    """Return a text as it is compared: its lines end in line feeds, and it has no mark."""
    return text.removeprefix(_MARK).replace("\r\n", "\n").replace("\r", "\n")


def as_text(data: bytes) -> str | None:
    """Return what an editor shows of a file; None where that is no text."""
    file = decode(data)
    return None if file is None else file.text


def as_bytes(text: str, disk: bytes | None) -> bytes:
    """Return what a file holds once a text was saved in it.

    Args:
        text: what the editor shows.
        disk: what the file holds now, whose encoding is kept where it has all the characters.
    """
    file = (decode(disk) if disk else None) or TextFile("")
    text = text.removeprefix(_MARK) if file.mark else text
    try:
        data = file.encode(text)
    except UnicodeEncodeError:
        data = b""
    if as_text(data) == text:
        return data
    # Characters that the encoding lacks, or bytes that would be read as another text. JSON can
    # carry halves of characters, which no file can.
    return text.encode("utf-8", "replace")


def holds(disk: bytes, text: str) -> bool:
    """Whether a file holds just that text."""
    shown = as_text(disk)
    return shown is not None and plain(shown) == plain(text)


async def look(document: Document) -> None:
    """Look whether a document's file holds what the document shows, and note it."""
    if document.file is None:
        return
    revision = document.revision
    if await asyncio.to_thread(_is_on_disk, document.file, document.source):
        document.note_saved(revision)


def _is_on_disk(file: Path, text: str) -> bool:
    """Whether a file is there and holds just that text.

    What is no regular file is never opened, and a large one not read whole.
    """
    try:
        real = Path(os.path.realpath(file))
        return holds(read_below(real.parent, (real.name,), READ_LIMIT_BYTES), text)
    except (OSError, ValueError):
        return False
