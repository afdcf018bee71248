"""Text as it lies in a file: its encoding, its byte order mark and its line ends.

Owns which bytes are text and which are not. Refuses to know where files are.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

# Where a NUL gives a binary file away; later ones are rare in practice.
_SNIFFED_BYTES = 8192

# What no text of an old encoding holds: control characters but tab, line ends, form feed, escape.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

# The mark of UTF-32 begins with that of UTF-16; nobody writes source in it, so it is no text here.
_UTF_32 = codecs.BOM_UTF32_LE

# By its mark, which is kept; without one it is UTF-8, or else Latin-1, which takes any byte.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# What each of these marks is as a character of the text.
_MARK_CHARACTER = "\ufeff"

# What files that are no text begin with, and what people call them; some of these hold no NUL.
_KINDS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "PNG image"),
    (re.compile(rb"\xff\xd8\xff"), "JPEG image"),
    (re.compile(rb"GIF8[79]a"), "GIF image"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "WebP image"),
    (re.compile(rb"%PDF-\d"), "PDF document"),
    (re.compile(rb"PK(?:\x03\x04|\x05\x06)"), "zip archive"),
    (re.compile(rb"\x1f\x8b\x08"), "gzip archive"),
    (re.compile(rb"SQLite format 3\x00"), "SQLite database"),
    (re.compile(rb"\x7fELF"), "program"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text, and what its bytes need beyond it.

    Args:
        text: with the line ends that it has in the file, without the mark.
        encoding: the codec of its bytes.
        mark: its byte order mark, if it has one.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def line_end(self) -> str:
        """What its lines end in where they all end alike, else a line feed."""
        ends = self.text.count("\n")
        return "\r\n" if ends and self.text.count("\r\n") == ends else "\n"

    @property
    def note(self) -> str:
        """What a reader should know of its encoding; empty for UTF-8."""
        return "" if self.encoding == "utf-8" else self.encoding.upper()

    def encode(self, text: str) -> bytes:
        """Return the bytes of another text, in the way of this file.

        Raises:
            UnicodeEncodeError: its encoding has no such character.
        """
        # A model that knows of the mark may give it as a character; the file has it already.
        if self.mark and not self.text.startswith(_MARK_CHARACTER):
            text = text.removeprefix(_MARK_CHARACTER)
        return self.mark + text.encode(self.encoding)


def decode(data: bytes) -> TextFile | None:
    """Read a file's bytes as text; None where they are none."""
    if kind_of(data) or data.startswith(_UTF_32):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding, mark)
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    if text := _decoded(data, "utf-8"):
        return text
    return None if _CONTROLS.search(data) else _decoded(data, "latin-1")


def kind_of(data: bytes) -> str:
    """Return what people call a file that begins so; empty where that is not known."""
    return next((name for sign, name in _KINDS if sign.match(data)), "")


def split_lines(text: str) -> list[str]:
    """Split text at line feeds alone, and leave out the carriage return before one."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _decoded(data: bytes, encoding: str, mark: bytes = b"") -> TextFile | None:
    try:
        return TextFile(data.decode(encoding), encoding, mark)
    except UnicodeDecodeError:
        return None
