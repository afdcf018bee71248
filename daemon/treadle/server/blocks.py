"""Content blocks: how what a person sends becomes a message, and how a message shows what it holds.

Owns which bytes a prompt may bring and in which words a text block is said.
Refuses to know where bytes are kept and which model may see them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treadle.errors import InvalidParams
from treadle.protocol.sessions import (
    AudioBlock,
    ImageBlock,
    PromptBlock,
    ResourceBlock,
    TextBlock,
)
from treadle.thread.attachments import Attachment, AttachmentType, Reference, attachment
from treadle.thread.blobs import blob_path
from treadle.thread.message import Content, Message
from treadle.thread.mime_types import SUFFIXES, UNTOLD, canonical, fits, told_by

# What endpoints take of one image or file; as base64 two of them fit into one frame.
MAX_ATTACHMENT_BYTES = 20 << 20

# So little is decoded and hashed faster than it is handed to a worker thread.
INLINE_CHARACTERS = 64 << 10


async def prompt_of(prompt: str | list[PromptBlock], *, path: str = "prompt") -> list[Message]:
    """Return a prompt as the one message a person says.

    Args:
        prompt: what the client sent.
        path: where in the params it stood, for the error.

    Raises:
        InvalidParams: it says nothing, or holds bytes that are not what they are said to be.
    """
    if isinstance(prompt, str):
        content: Content = prompt
    elif sum(map(_encoded_characters, prompt)) <= INLINE_CHARACTERS:
        content = _content(prompt, path)
    else:
        content = await asyncio.to_thread(_content, prompt, path)
    if isinstance(content, str) and not content.strip():
        raise InvalidParams(f"the {path} is empty; say something", path=path)
    return [Message("user", content)]


def shown_content(content: Content, thread: Path) -> Content:
    """Return a message's content as a client reads it; it looks at files, and blocks.

    A block that refers to bytes says where they lie, if they do.

    Args:
        content: the message's.
        thread: the file of its thread, which need not exist.
    """
    if isinstance(content, str):
        return content
    return [_shown(block, thread) for block in content]


def _content(blocks: list[PromptBlock], path: str) -> Content:
    """Return blocks as content: text alone as text, else blocks with neighbouring texts joined."""
    content: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        brought = _attachment(block, f"{path}[{index}]")
        if brought is not None:
            content.append(brought)
        elif content and content[-1]["type"] == "text":
            content[-1]["text"] += "\n\n" + _text(block)
        else:
            content.append({"type": "text", "text": _text(block)})
    if not any(isinstance(block, Attachment) for block in content):
        return content[0]["text"] if content else ""
    # Some endpoints refuse a text that says nothing beside an image.
    return [block for block in content if block.get("text", "bytes").strip()]


def _text(block: PromptBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ResourceBlock):
        return f"Contents of {block.resource.uri}:\n{block.resource.text}"
    assert not isinstance(block, ImageBlock | AudioBlock), "those bring bytes"
    return f"See {block.uri}" + (f" ({block.name})" if block.name else "")


def _attachment(block: PromptBlock, path: str) -> Attachment | None:
    """Return the bytes that a block brings, as a block of a message; None where it brings none.

    Raises:
        InvalidParams: they are not what they are said to be.
    """
    if isinstance(block, ImageBlock | AudioBlock):
        kind: AttachmentType = "image" if isinstance(block, ImageBlock) else "audio"
        data = _decoded(block.data, f"{path}.data")
        mime_type = _known_type(kind, block.mime_type, f"{path}.mimeType")
        _require_fit(mime_type, data, f"{path}.data")
        return attachment(kind, data, mime_type)
    if not isinstance(block, ResourceBlock):
        return None
    resource = block.resource
    if (resource.text is None) == (resource.blob is None):
        raise InvalidParams(
            f"{path}.resource needs either text or blob, and not both", path=f"{path}.resource"
        )
    if resource.blob is None:
        return None
    data = _decoded(resource.blob, f"{path}.resource.blob")
    mime_type = _any_type(resource.mime_type, data, f"{path}.resource.mimeType")
    _require_fit(mime_type, data, f"{path}.resource.blob")
    return attachment("resource", data, mime_type, uri=resource.uri)


def _encoded_characters(block: PromptBlock) -> int:
    if isinstance(block, ImageBlock | AudioBlock):
        return len(block.data)
    return len(block.resource.blob or "") if isinstance(block, ResourceBlock) else 0


def _decoded(encoded: str, path: str) -> bytes:
    if not encoded:
        raise InvalidParams(f"{path} is empty; send the bytes as base64", path=path)
    # Every four characters are three bytes at most.
    if len(encoded) > (MAX_ATTACHMENT_BYTES + 2) // 3 * 4:
        raise InvalidParams(
            f"{path} holds more than {MAX_ATTACHMENT_BYTES >> 20} MiB; send something smaller, "
            "or link to it",
            path=path,
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidParams(
            f"{path} is no base64 (RFC 4648, section 4: padded, without line breaks and without "
            "`data:` before it)",
            path=path,
        ) from error


def _known_type(kind: str, mime_type: str, path: str) -> str:
    name = canonical(mime_type)
    known = [each for each in SUFFIXES if each.startswith(f"{kind}/")]
    if name not in known:
        raise InvalidParams(
            f"{path}: {mime_type[:100]!r} is no type of {kind} that can be sent; "
            f"there are {', '.join(known)}",
            path=path,
        )
    return name


def _any_type(mime_type: str | None, data: bytes, path: str) -> str:
    """Return a resource's type: the one that is said, else what its bytes tell."""
    name = canonical(mime_type or UNTOLD)
    if not name:
        raise InvalidParams(f"{path} is no MIME type such as application/pdf", path=path)
    return (told_by(data) or UNTOLD) if name == UNTOLD else name


def _require_fit(mime_type: str, data: bytes, path: str) -> None:
    if not fits(mime_type, data):
        told = told_by(data)
        seems = f"they are {told}" if told else "they begin otherwise"
        raise InvalidParams(f"{path}: its bytes are no {mime_type}: {seems}", path=path)


def _shown(block: Mapping[str, Any], thread: Path) -> dict[str, Any]:
    reference, path = Reference.of(block), blob_path(thread, block)
    if reference is None or path is None:
        return dict(block)
    rest = {key: value for key, value in block.items() if key not in _RENAMED}
    renamed = {wire: block[key] for key, wire in _RENAMED.items() if key in block}
    return rest | renamed | ({"path": str(path)} if path.is_file() else {})


# The members of a reference that the wire calls otherwise.
_RENAMED = {"mime_type": "mimeType", "size_bytes": "sizeBytes"}
