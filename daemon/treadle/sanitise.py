"""Text of models, tools and files, made safe to show to a person; owns the one rule for that.

Refuses to know who shows it. Nothing that a terminal would obey gets through.
"""

from __future__ import annotations


def clean(text: str) -> str:
    """Return `text` as it can be printed: every character shows itself and does nothing else.

    Control characters become their pictures (an escape is `␛`), so that nothing is hidden; line
    ends of any kind become `\\n`; marks that turn the direction of text around are left out, so
    that what is shown has the order of what is there. Tabs stay.
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


def clean_line(text: str) -> str:
    """Return `text` as one line, for names and for what stands in a line of its own."""
    return " ".join(clean(text).split())


# Unicode's own sign for what cannot be shown.
_REPLACEMENT = "\ufffd"

# What becomes of each character that a terminal would obey.
_SHOWN: dict[int, str] = {
    # Unicode keeps a picture for each of the old control characters.
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "\u2421",
    # Terminals take these as escapes in one byte; they have no pictures.
    **dict.fromkeys(range(0x80, 0xA0), _REPLACEMENT),
    # Half characters cannot be encoded at all.
    **dict.fromkeys(range(0xD800, 0xE000), _REPLACEMENT),
    0x2028: "\n",
    0x2029: "\n",
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), ""),
}
