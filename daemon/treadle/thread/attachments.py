"""What a content block says of bytes that lie elsewhere, and a block that brings its own along.

Owns the form of such a block. Refuses to know where the bytes are.

A message that is new may hold `Attachment` blocks, which bring their bytes along. What is kept of
such a block is the reference that it is as JSON:

    {"type": "image", "mime_type": "image/png", "sha256": "…", "size_bytes": 68}

`type` is `image`, `audio` or `resource`; a resource has its `uri` too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, get_args

from treadle.thread.message import Message
from treadle.thread.mime_types import canonical, suffix

AttachmentType: TypeAlias = Literal["image", "audio", "resource"]


class Attachment(dict[str, Any]):
    """A content block that brings its bytes along; as JSON it is the reference to them."""

    data: bytes


def attachment(kind: AttachmentType, data: bytes, mime_type: str, *, uri: str = "") -> Attachment:
    """Make a content block of bytes.

    Args:
        kind: what the block is.
        data: the bytes; they are hashed, so large ones belong in a worker thread.
        mime_type: their type, as `mime_types.canonical` writes it.
        uri: where a resource comes from.
    """
    block = Attachment(
        type=kind,
        mime_type=mime_type,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )
    if uri:
        block["uri"] = uri
    block.data = data
    return block


@dataclass(frozen=True, slots=True)
class Reference:
    """What a content block says of the bytes that it stands for."""

    type: str
    mime_type: str
    sha256: str
    size_bytes: int
    uri: str = ""

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> Self | None:
        """Read a block; None where it refers to no bytes, or not as it should."""
        kind, sha256, size_bytes = (block.get(name) for name in ("type", "sha256", "size_bytes"))
        if not isinstance(kind, str) or kind not in _TYPES:
            return None
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            return None
        if not isinstance(size_bytes, int) or size_bytes < 0:
            return None
        mime_type, uri = block.get("mime_type"), block.get("uri")
        return cls(
            kind,
            canonical(mime_type) if isinstance(mime_type, str) else "",
            sha256,
            size_bytes,
            uri if isinstance(uri, str) else "",
        )

    @property
    def file_name(self) -> str:
        """What the file of the bytes is called."""
        return self.sha256 + suffix(self.mime_type)


def brings_bytes(message: Message) -> bool:
    """Whether a message is new and has bytes that are to be kept beside it."""
    return any(attachments_of((message,)))


def references(message: Message) -> list[Reference]:
    """Return what a message refers to, in order."""
    if isinstance(message.content, str):
        return []
    return list(filter(None, map(Reference.of, message.content)))


def referenced(messages: Iterable[Message]) -> set[str]:
    """Return the names of the files that messages refer to."""
    return {reference.file_name for message in messages for reference in references(message)}


def attachments_of(messages: Iterable[Message]) -> Iterator[Attachment]:
    """Yield the blocks of messages that bring their bytes along."""
    for message in messages:
        if isinstance(message.content, list):
            yield from (block for block in message.content if isinstance(block, Attachment))


_TYPES: frozenset[str] = frozenset(get_args(AttachmentType))
_SHA256 = re.compile(r"[0-9a-f]{64}")
