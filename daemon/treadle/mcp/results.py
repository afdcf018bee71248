"""What a server answers, as a model gets it: text to read, and blocks of what it sees or hears.

Owns which bytes are taken over and that nothing of an answer goes by in silence: what is not taken
is named in the text, at its place. Refuses to know which model is shown what.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from treadle.mcp.remote import RemoteResult
from treadle.models.attachments import size_in_words
from treadle.secrets import known
from treadle.thread.attachments import Attachment, AttachmentType, attachment
from treadle.thread.message import clean, encode_json
from treadle.thread.mime_types import SUFFIXES, UNTOLD, canonical, fits, told_by
from treadle.tools.limits import cut_characters
from treadle.tools.spill import KEPT_FILE_BYTES
from treadle.tools.tool import Answer, ToolError

# What one answer may bring along: as much as a person may attach, and as one request holds.
MAX_ATTACHED_BYTES = 20 << 20
# A call that brings more is a mistake, or is meant to fill a disk with small files.
MAX_ATTACHED = 32

# No more of a text is kept anywhere, so nothing more of it is copied about; there is room left to
# say so.
MAX_TEXT_CHARACTERS = KEPT_FILE_BYTES - 1024

# So much is looked through while the daemon waits; the rest belongs in a worker thread.
INLINE_CHARACTERS = 64 << 10

# What names a thing is there to be recognised.
NAME_CHARACTERS = 200
# A link's description is a sentence or two.
DESCRIPTION_CHARACTERS = 500


def answer_of(result: RemoteResult) -> Answer:
    """Return what a model gets of a result.

    What is large is decoded and hashed, which takes a moment (`is_large`).

    Raises:
        ToolError: the server says that the call failed; the text is what it says. Failures bring
            no bytes.
    """
    reading = _Reading(takes_bytes=not result.is_error)
    for block in result.blocks:
        reading.add(block)
    if result.structured is not None and not _is_said(result.structured, result.blocks):
        reading.say(encode_json(result.structured).decode())
    text = reading.text()
    if result.is_error:
        raise ToolError(text.strip() or "The server says that it failed, and not why.")
    return Answer(text, tuple(reading.attachments))


def contents_of(contents: Iterable[dict[str, Any]]) -> Answer:
    """Return what a model gets of a resource's contents."""
    blocks = [{"type": "resource", "resource": each} for each in contents]
    return answer_of(RemoteResult(tuple(blocks)))


def is_large(result: RemoteResult) -> bool:
    """Whether `answer_of` belongs in a worker thread."""
    return result.structured is not None or _characters(result.blocks) > INLINE_CHARACTERS


class _Reading:
    """An answer as it comes together.

    Args:
        takes_bytes: whether it may have attachments at all.
    """

    def __init__(self, *, takes_bytes: bool) -> None:
        self.attachments: list[Attachment] = []
        self._takes_bytes = takes_bytes
        self._texts: list[str] = []
        self._left_characters = MAX_TEXT_CHARACTERS
        self._left_bytes = MAX_ATTACHED_BYTES
        self._cut_characters = 0

    def say(self, text: str) -> None:
        """Add text, as far as there is room."""
        # Redacted before it is cut: half a secret is not recognised any more.
        if len(text) > self._left_characters:
            text = known().redact(text)
        kept = text[: self._left_characters]
        self._left_characters -= len(kept)
        self._cut_characters += len(text) - len(kept)
        if kept:
            self._texts.append(kept)

    def add(self, block: Mapping[str, Any]) -> None:
        """Add a content block."""
        kind = block.get("type")
        if kind == "text":
            self.say(_string(block, "text"))
        elif kind == "image" or kind == "audio":
            self._attach(kind, block.get("data"), _string(block, "mimeType"))
        elif kind == "resource":
            self._add_resource(block.get("resource"))
        elif kind == "resource_link":
            self.say(link_line(block))
        else:
            self.say(f"[a block of the type {_name(str(kind))!r}, which is not known here]")

    def text(self) -> str:
        """Return all that was said, each block on a line of its own."""
        if self._cut_characters:
            note = f"[… {self._cut_characters} more characters, which were not kept]"
            return "\n".join((*self._texts, note))
        return "\n".join(self._texts)

    def _add_resource(self, resource: object) -> None:
        if not isinstance(resource, Mapping):
            self.say("[a resource that is none]")
            return
        uri = _name(_string(resource, "uri"))
        if isinstance(resource.get("text"), str):
            self.say(f"Contents of {uri}:")
            self.say(resource["text"])
        else:
            self._attach("resource", resource.get("blob"), _string(resource, "mimeType"), uri)

    def _attach(self, kind: AttachmentType, encoded: object, said: str, uri: str = "") -> None:
        """Take bytes over, or name them and say why not."""
        name = f"{kind} {uri}".strip()
        try:
            data, mime_type = self._taken(kind, encoded, said)
        except _NotTaken as left:
            told = ", ".join(filter(None, (name, _name(said), str(left))))
            self.say(f"[{told}]")
            return
        self.attachments.append(attachment(kind, data, mime_type, uri=uri))
        self._left_bytes -= len(data)
        size = size_in_words(len(data))
        self.say(f"[attached: {name}, {mime_type}, {size}]")

    def _taken(self, kind: AttachmentType, encoded: object, said: str) -> tuple[bytes, str]:
        """Return bytes that can be taken over, and their type.

        Raises:
            _NotTaken: they cannot, and why.
        """
        if not isinstance(encoded, str) or not encoded:
            raise _NotTaken("without any bytes")
        size_bytes = len(encoded) * 3 // 4
        if not self._takes_bytes:
            raise _NotTaken(f"about {size_in_words(size_bytes)}, not kept, for the call failed")
        if size_bytes > self._left_bytes + 2:
            raise _NotTaken(
                f"about {size_in_words(size_bytes)}, not kept: "
                f"one answer may bring {MAX_ATTACHED_BYTES >> 20} MiB"
            )
        if len(self.attachments) == MAX_ATTACHED:
            raise _NotTaken(f"not kept: one answer may bring {MAX_ATTACHED} of them")
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise _NotTaken("whose bytes are no base64") from None
        return data, _type(kind, data, said)


class _NotTaken(Exception):
    """Bytes that are not taken over; the text says why."""


def link_line(link: Mapping[str, Any]) -> str:
    """Name a resource that can be read: `See URI (name): what it is`."""
    name, about = _name(_string(link, "name")), _string(link, "description")
    line = f"See {_name(_string(link, 'uri'))}" + (f" ({name})" if name else "")
    about = cut_characters(" ".join(about.split()), DESCRIPTION_CHARACTERS)
    return f"{line}: {about}" if about else line


def _type(kind: AttachmentType, data: bytes, said: str) -> str:
    """Return the type of bytes: the one that they tell, else the one that is said.

    Raises:
        _NotTaken: it is none that anybody is shown.
    """
    mime_type = told_by(data) or canonical(said) or UNTOLD
    is_wanted = kind == "resource" or mime_type.startswith(f"{kind}/")
    if mime_type not in SUFFIXES or not is_wanted or not fits(mime_type, data):
        raise _NotTaken(f"{size_in_words(len(data))}, not kept: it can be shown to nobody here")
    return mime_type


def _is_said(structured: Any, blocks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether text says already what the structured content does, as servers are told to do."""
    texts = [_string(block, "text") for block in blocks if block.get("type") == "text"]
    if sum(map(len, texts)) > MAX_TEXT_CHARACTERS:
        return False
    parsed = [_parsed(text) for text in texts]
    said = [*texts, *parsed, texts, parsed]
    # Servers wrap what is no object in one: with the key `result`, `content` or whatever.
    is_wrapped = isinstance(structured, dict) and len(structured) == 1
    return structured in said or (is_wrapped and next(iter(structured.values())) in said)


def _parsed(text: str) -> Any:
    """Return what a text is as JSON; itself where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _characters(blocks: Iterable[Mapping[str, Any]]) -> int:
    resources = (block.get("resource") for block in blocks)
    parts = (*blocks, *(each for each in resources if isinstance(each, Mapping)))
    return sum(len(_string(part, key)) for part in parts for key in ("text", "data", "blob"))


def _string(part: Mapping[str, Any], key: str) -> str:
    value = part.get(key)
    return value if isinstance(value, str) else ""


def _name(text: str) -> str:
    """Return what names something, on one line."""
    return cut_characters(" ".join(clean(text).split()), NAME_CHARACTERS)
