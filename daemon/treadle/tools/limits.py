"""How much of a result a model is shown, and cutting text and lists to it."""

from __future__ import annotations

from collections.abc import Sequence

# The field's standard for one tool result: some 12,000 tokens, a part of any model's window.
RESULT_LIMIT_BYTES = 50 * 1024


def cut_bytes(text: str, limit_bytes: int) -> str:
    """Return the beginning of `text`, at most `limit_bytes` of UTF-8, cut at a whole character."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    return data[:limit_bytes].decode(errors="ignore")


def cut_characters(text: str, limit_characters: int) -> str:
    """Return `text`, or as much of its beginning, and a sign that there is more."""
    return text if len(text) <= limit_characters else f"{text[:limit_characters]}…"


def cut_names(names: Sequence[str], limit_names: int) -> str:
    """Return `a, b, c`, of as many names at most, and a sign where there are more."""
    return ", ".join(names[:limit_names]) + (", …" if len(names) > limit_names else "")
