"""The parts of a message that shows images and files, as chat-completions endpoints want them.

Owns the form of each part. Refuses to know which attachments are shown.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from treadle.models.attachments import in_words, worded
from treadle.models.openai.attachments import KINDS, Notes
from treadle.thread.attachments import Reference
from treadle.thread.blobs import BlobLost, Blobs
from treadle.thread.message import Message

# A name of a file has at most this many characters on any system.
FILE_NAME_CHARACTERS = 200

_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def content_of(message: Message, notes: Notes, blobs: Blobs) -> str | list[dict[str, Any]] | None:
    """Return the content of a message that refers to attachments; it reads them, and blocks.

    Where none is shown it is text, which every endpoint takes. Bytes that are lost are named in
    words, as those are that are left out.

    Args:
        message: a person's message, else None comes back.
        notes: for each of its references, why it is left out, if it is.
        blobs: where the bytes are.
    """
    if message.role != "user" or isinstance(message.content, str):
        return None
    parts: list[dict[str, Any]] = []
    for block, reference, why in _noted(message.content, notes):
        if reference is None:
            parts.append(_text(in_words([block])))
        elif why:
            parts.append(_text(worded(reference, why)))
        else:
            parts += _shown(block, reference, blobs)
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def result_of(message: Message, notes: Notes, blobs: Blobs) -> tuple[str, list[dict[str, Any]]]:
    """Return a tool's result: its text, and the parts that it cannot hold; it reads, and blocks.

    Endpoints take text alone in a tool's message. What is not shown is named there.

    Args:
        message: the tool's.
        notes: for each of its references, why it is left out, if it is.
        blobs: where the bytes are.
    """
    assert not isinstance(message.content, str), "text alone refers to nothing"
    words: list[str] = []
    beside: list[dict[str, Any]] = []
    for block, reference, why in _noted(message.content, notes):
        if reference is None:
            words.append(in_words([block]))
        elif why:
            words.append(worded(reference, why))
        else:
            beside += _shown(block, reference, blobs)
    if all(part["type"] == "text" for part in beside):
        return "\n".join((*words, *(part["text"] for part in beside))), []
    return "\n".join(words) or _ONLY_BESIDE, beside


# Some endpoints refuse a result that says nothing.
_ONLY_BESIDE = "(see below)"


def _noted(
    content: list[dict[str, Any]], notes: Notes
) -> Iterator[tuple[dict[str, Any], Reference | None, str]]:
    """Yield each block, what it refers to, and why that is left out, if it is."""
    left = iter(notes)
    for block in content:
        reference = Reference.of(block)
        yield block, reference, "" if reference is None else next(left)


def _shown(block: dict[str, Any], reference: Reference, blobs: Blobs) -> list[dict[str, Any]]:
    try:
        encoded = base64.b64encode(blobs.read(block)).decode("ascii")
    except BlobLost as lost:
        return [_text(worded(reference, str(lost)))]
    name = [_text(f"Contents of {reference.uri}:")] if reference.uri else []
    return [*name, _part(reference, encoded)]


def _part(reference: Reference, encoded: str) -> dict[str, Any]:
    kind = KINDS[reference.mime_type]
    if kind == "audio":
        audio_format = _AUDIO_FORMATS[reference.mime_type]
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": audio_format}}
    url = f"data:{reference.mime_type};base64,{encoded}"
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": _file_name(reference), "file_data": url}}


def _file_name(reference: Reference) -> str:
    """Return a name for a file, which endpoints insist on."""
    try:
        path = unquote(urlsplit(reference.uri).path)
    except ValueError:
        path = ""
    return path.rpartition("/")[2][-FILE_NAME_CHARACTERS:] or "document.pdf"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
