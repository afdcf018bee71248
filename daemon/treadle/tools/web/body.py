"""Bodies of answers: what type they are, taken in within a bound, and as text.

Refuses to know where they come from.
"""

from __future__ import annotations

import codecs
import re
import zlib
from dataclasses import dataclass

from treadle.tools.web.errors import WebError

# Types that are text although they are not called so.
_TEXTS = re.compile(
    r"text/.*|.*\+(json|xml|yaml)|application/(json|xml|javascript|ecmascript|x-javascript|"
    r"x-ndjson|ndjson|jsonl|x-sh|toml|yaml|x-yaml|sql|graphql|x-www-form-urlencoded)"
)
# Types that say nothing: what is in the body decides.
_UNKNOWN = ("", "application/octet-stream", "binary/octet-stream", "application/unknown")
# Types of pages, which are made text of otherwise.
_HTML = ("text/html", "application/xhtml+xml")

# How a header names a charset, how a page does, and how a page begins that is told by that.
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.IGNORECASE | re.ASCII)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.IGNORECASE)
_HTML_BEGINS = re.compile(rb"\s*(<!--.{0,500}?-->\s*)?<(!doctype html|html)\b", re.I | re.S)
# Where the standard of HTML says that a page names its charset.
_META_BYTES = 1024
# Where a NUL gives a binary body away.
_SNIFFED_BYTES = 8192

# What a text may begin with that tells its charset for certain.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Pages that name these mean the wider one (WHATWG, Encoding).
_MEANT = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
# Other codecs are no charsets of pages, and some take forever: punycode, unicode_escape.
_CHARSETS = re.compile(
    r"utf-8|utf-8-sig|utf-16|utf-16-[lb]e|ascii|cp125\d|cp866|cp874|cp932|cp949|iso8859-\d+|koi8-[ru]|"
    r"mac-(roman|cyrillic)|gb2312|gbk|gb18030|big5|big5hkscs|euc_(jp|kr)|shift_jis|iso2022_jp|tis-620"
)

# What compression costs at most beyond what it holds: what grows into nothing is a trap.
_PACKED_FACTOR = 2
# And what the frame around it costs, where it holds next to nothing.
_PACKED_BYTES = 64 * 1024
# zlib takes the header of either kind, gzip's and its own.
_ANY_HEADER = zlib.MAX_WBITS | 32


@dataclass(frozen=True, slots=True)
class ContentType:
    """What a server says of a body: its type in lower case and its charset; empty if nothing."""

    name: str
    charset: str = ""

    @classmethod
    def parse(cls, header: str) -> ContentType:
        """Read the header `Content-Type`."""
        name, _, parameters = header.partition(";")
        found = _CHARSET.search(parameters)
        name = name.strip().lower()
        return cls(name if name.isprintable() else "", found[1] if found else "")

    @property
    def may_be_text(self) -> bool:
        """Whether a body of this type is worth reading."""
        return self.name in _UNKNOWN or bool(_TEXTS.fullmatch(self.name))


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a body, decompressed; `cut` where there are more."""

    data: bytes
    cut: bool

    def is_html(self, content_type: ContentType) -> bool:
        """Whether this is a page, by its type or, where that says nothing, by how it begins."""
        return content_type.name in _HTML or (
            content_type.name in _UNKNOWN and bool(_HTML_BEGINS.match(self.data))
        )

    def text(self, content_type: ContentType) -> str | None:
        """Return the body as text; None where it is none, whatever its type says."""
        charset = self._charset(content_type)
        if not charset.startswith("utf-16") and b"\0" in self.data[:_SNIFFED_BYTES]:
            return None
        return self.data.decode(charset, errors="replace").removeprefix("\ufeff")

    def _charset(self, content_type: ContentType) -> str:
        """Find the charset: a byte order mark, the header, the page itself, what fits."""
        for mark, name in _BOMS:
            if self.data.startswith(mark):
                return name
        if found := _codec(content_type.charset):
            return found
        meta = _META.search(self.data[:_META_BYTES]) if self.is_html(content_type) else None
        if meta and (found := _codec(meta[1].decode("ascii", "replace"))):
            # A page that could be read this far is not in UTF-16, whatever it says.
            return "utf-8" if found.startswith("utf-16") else found
        return "utf-8" if _is_utf8(self.data) else "cp1252"


class Inflater:
    """Takes a body in piece by piece, decompressing it, and never holds more than the limit.

    Args:
        encoding: the header `Content-Encoding`.
        limit_bytes: how much is kept.

    Raises:
        WebError: it is compressed in a way that was not asked for.
    """

    def __init__(self, encoding: str, limit_bytes: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise WebError(
                f"The answer is compressed as {self._encoding[:40]!r}, not as asked for."
            )
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self._packed_bytes = 0
        self._zlib = zlib.decompressobj(_ANY_HEADER)
        # Whether one compressed file has ended, and whether the header was found missing.
        self._ended = self._raw = False

    def take(self, piece: bytes) -> bool:
        """Take the next piece; return whether that is enough.

        Raises:
            WebError: it is not compressed as it says.
        """
        self._packed_bytes += len(piece)
        if self._encoding in ("", "identity"):
            self._data += piece[: self._room()]
        else:
            self._inflate(piece)
        return self._is_cut()

    def body(self) -> Body:
        """Return what was taken, up to the limit."""
        return Body(bytes(self._data[: self._limit_bytes]), self._is_cut())

    def _is_cut(self) -> bool:
        packed_limit = _PACKED_FACTOR * self._limit_bytes + _PACKED_BYTES
        return len(self._data) > self._limit_bytes or self._packed_bytes > packed_limit

    def _room(self) -> int:
        """Return how much is still wanted: one byte beyond the limit tells that there is more."""
        return self._limit_bytes + 1 - len(self._data)

    def _inflate(self, piece: bytes) -> None:
        while piece and self._room() > 0:
            if self._zlib.eof:
                # A compressed file may be several, one after the other.
                self._ended, self._zlib = True, zlib.decompressobj(_ANY_HEADER)
            try:
                self._data += self._zlib.decompress(piece, self._room())
            except zlib.error as error:
                if self._ended:
                    # Whatever stands behind the end is none of it.
                    return
                self._expect_raw(error)
                continue
            piece = self._zlib.unused_data if self._zlib.eof else b""

    def _expect_raw(self, error: zlib.error) -> None:
        """Go on without the header of `deflate`, which some servers leave out.

        Raises:
            WebError: that is not what is wrong.
        """
        if self._raw or self._data or self._encoding != "deflate":
            raise WebError(f"The answer cannot be decompressed: {error}.") from error
        self._raw, self._zlib = True, zlib.decompressobj(-zlib.MAX_WBITS)


def _codec(name: str) -> str:
    """Return Python's name of a charset; nothing where it is none of pages."""
    try:
        found = codecs.lookup(name).name if name else ""
    except (LookupError, ValueError):
        return ""
    return _MEANT.get(found, found) if _CHARSETS.fullmatch(found) else ""


def _is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, but for a character that the end cuts."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True
