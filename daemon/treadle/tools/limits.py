"""How much of a result a model is shown, and cutting text to it."""

from __future__ import annotations

# The field's standard for one tool result: some 12,000 tokens, a part of any model's window.
RESULT_LIMIT_BYTES = 50 * 1024


def cut_bytes(text: str, limit_bytes: int) -> str:
    """Return the beginning of `text`, at most `limit_bytes` of UTF-8, cut at a whole character."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    return data[:limit_bytes].decode(errors="ignore")
