"""Images and files in words, for a model that cannot be shown them.

Owns those words: nothing that a person sent goes by in silence.
"""

from __future__ import annotations

from collections.abc import Iterator

from treadle.thread.attachments import Reference
from treadle.thread.message import Content

NOT_SHOWN = "not shown to this model"

# A name is there to be recognised; nobody reads more of it.
URI_CHARACTERS = 200


def in_words(content: Content) -> str:
    """Return content as text; a block that is no text is named."""
    return content if isinstance(content, str) else "\n".join(_words(content))


def worded(reference: Reference, why: str = NOT_SHOWN) -> str:
    """Name an attachment in the place of its bytes, and say why they are not there."""
    name = " ".join(reference.uri.split())
    if len(name) > URI_CHARACTERS:
        name = name[:URI_CHARACTERS] + "…"
    parts = (
        f"{reference.type} {name}".strip(),
        reference.mime_type,
        size_in_words(reference.size_bytes),
        why,
    )
    return f"[{', '.join(filter(None, parts))}]"


def size_in_words(size_bytes: int) -> str:
    """Return a size as a person says it: `68 bytes`, `34 kB`, `1.2 MB`."""
    if size_bytes < 1000:
        return "1 byte" if size_bytes == 1 else f"{size_bytes} bytes"
    if size_bytes < 999_500:
        return f"{size_bytes / 1000:.0f} kB"
    return f"{size_bytes / 1_000_000:.1f} MB"


def _words(content: list[dict[str, object]]) -> Iterator[str]:
    for block in content:
        reference = Reference.of(block)
        if reference is not None:
            yield worded(reference)
        elif "text" in block:
            yield str(block["text"])
        else:
            yield f"[{block.get('type', 'content')} not shown]"
