"""Text that somebody else wrote, put so that a model cannot take it for what it is told to do.

Owns how such text is set apart. Each of its lines begins with a sign, so that none can look like
the tag that ends it, nor like the beginning of a message; and the tag carries a hash of all that
stands between, which no part of it can know. Refuses to know what the text is and who reads it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

# The signs at the head of a line: something begins here, or goes on.
FIRST = "> "
MORE = "| "

# A longer line goes on in the next one, so that a text can be handed out in parts of any size.
LINE_CHARACTERS = 400

# Enough that no text holds its own by chance.
_HASH_CHARACTERS = 12

_TAG = re.compile(rf"</?[a-z]+ [0-9a-f]{{{_HASH_CHARACTERS}}}>")


def signed(text: str) -> list[str]:
    """Return a text as lines, each behind its sign; whatever ends a line somewhere, ends one."""
    parts = [part for line in text.splitlines() for part in _parts(line)] or [""]
    return [FIRST + parts[0], *(MORE + part for part in parts[1:])]


def fenced(name: str, lines: Sequence[str]) -> str:
    """Put signed lines between two tags.

    Args:
        name: what they are, in one word.
        lines: as `signed` makes them.
    """
    body = "\n".join(lines)
    digest = hashlib.sha256(body.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    return f"<{name} {digest}>\n{body}\n</{name} {digest}>"


def is_tagged(text: str) -> bool:
    """Whether a text holds what looks like a tag: whoever wrote it copied what was fenced."""
    return _TAG.search(text) is not None


def _parts(line: str) -> Iterator[str]:
    """Cut a line into parts of bounded length, between words where it has any."""
    while len(line) > LINE_CHARACTERS:
        end = line.rfind(" ", LINE_CHARACTERS // 2, LINE_CHARACTERS) + 1 or LINE_CHARACTERS
        yield line[:end]
        line = line[end:]
    yield line
