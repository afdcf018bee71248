"""Documents as an editor shows them, unsaved text included.

Owns what LSP means by a line and by a position, where pygls' own document departs from it:
that one takes U+2028, U+0085, form feeds and more for line ends, puts what stands beyond the
end of a last line before its last character, and copies the whole text for each change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

from treadle.server.uri import folder_of

# LSP 3.17, "Text Documents": only these end a line.
# Written so that no part of a line is ever looked at twice.
_LINE = re.compile(r"[^\r\n]+(?:\r\n|\n|\r)?|\r\n|\n|\r")
# The characters that a line's end is made of, to be stripped.
_LINE_END = "\r\n"

# A drive of Windows at the beginning of a path.
_DRIVE = re.compile(r"(?<=^file:///)[A-Za-z](?=:)")

Place: TypeAlias = tuple[int, int]
"""A line and the characters before the place in it."""


class Document(TextDocument):
    """An open document, kept as its lines, so that a change costs what it changes.

    Attributes:
        revision: how often it was changed; every client counts it otherwise, or not at all.
        saved_revision: the last one that is known to have been on the disk; None for none.
    """

    revision = 0
    saved_revision: int | None = None
    _lines: list[str] | None = None

    @cached_property
    def file(self) -> Path | None:
        """The file that it shows; None where it shows none of this machine."""
        return folder_of(self.uri)

    @property
    def is_saved(self) -> bool:
        """Whether nothing was typed since it was known to be on the disk."""
        return self.saved_revision == self.revision

    def note_saved(self, revision: int) -> None:
        """Note that the disk has, or had, what was shown in a revision."""
        self.saved_revision = max(revision, self.saved_revision or 0)

    @property
    def lines(self) -> Sequence[str]:
        """The text's lines with their ends; a text that ends with one has no empty last line."""
        if self._lines is None:
            self._lines = split(self._source or "")
            self._source = None
        return self._lines

    @property
    def source(self) -> str:
        """The whole text."""
        if self._lines is not None:
            return "".join(self._lines)
        return self._source or ""

    def _apply_full_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        self.revision += 1
        self._source = change.text
        self._lines = None

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        self.revision += 1
        lines = self.lines
        assert isinstance(lines, list)
        start, end = sorted((self._place(change.range.start), self._place(change.range.end)))
        first, last = start[0], end[0]
        text = _line(lines, first)[: start[1]] + change.text + _line(lines, last)[end[1] :]
        # A line feed that comes to stand behind a carriage return is one line end with it.
        if first > 0 and lines[first - 1].endswith("\r"):
            first -= 1
            text = lines[first] + text
        if text.endswith("\r") and last + 1 < len(lines):
            last += 1
            text += lines[last]
        lines[first : last + 1] = split(text)

    def _place(self, position: types.Position) -> Place:
        """Return a place in the text; what lies beyond a line's or the text's end is that end."""
        lines = self.lines
        if position.line >= len(lines):
            return self._end()
        line = lines[position.line].rstrip(_LINE_END)
        return position.line, _characters(line, position.character, self.position_codec.encoding)

    def _end(self) -> Place:
        """Return the place behind the last character."""
        last = len(self.lines) - 1
        if last < 0 or self.lines[last].endswith(("\r", "\n")):
            return last + 1, 0
        return last, len(self.lines[last])


class Documents(Workspace):
    """pygls' workspace with documents of ours.

    Attributes:
        on_unknown: called with a document of which it is not known any more, or not yet, whether
            it is as its file. Contract: neither blocks nor raises.
    """

    on_unknown: Callable[[Document], object] = staticmethod(lambda _: None)

    def put_text_document(
        self, text_document: types.TextDocumentItem, notebook_uri: str | None = None
    ) -> None:
        """Take a document that is opened."""
        super().put_text_document(text_document, notebook_uri)
        self._tell(text_document.uri)

    def update_text_document(
        self,
        text_doc: types.VersionedTextDocumentIdentifier,
        change: types.TextDocumentContentChangeEvent,
    ) -> None:
        """Take one change of a document."""
        document = self.text_documents.get(unquote(text_doc.uri))
        was_saved = isinstance(document, Document) and document.is_saved
        super().update_text_document(text_doc, change)
        if was_saved:
            self._tell(text_doc.uri)

    def saved(self, uri: str) -> None:
        """Take it that a document was saved."""
        document = self.text_documents.get(unquote(uri))
        if isinstance(document, Document):
            document.note_saved(document.revision)

    def files(self) -> dict[Path, Document]:
        """Return the documents that show a file, by the path that the editor gives it."""
        return {
            document.file: document
            for document in self.text_documents.values()
            if isinstance(document, Document) and document.file is not None
        }

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> Document:
        return Document(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )

    def _tell(self, uri: str) -> None:
        document = self.text_documents.get(unquote(uri))
        if isinstance(document, Document) and document.file is not None:
            self.on_unknown(document)

    def text_of(self, uri: str) -> str | None:
        """Return an open document's text; None when the editor has no such document open."""
        found = (self.text_documents.get(spelling) for spelling in _spellings(uri))
        document = next(filter(None, found), None)
        return document.source if document else None


def split(text: str) -> list[str]:
    """Return a text's lines with their ends, as LSP counts lines.

    Most have no carriage return, and then it costs a tenth: a minified file is one line of
    megabytes, which is split at each key.
    """
    if "\r" in text:
        return _LINE.findall(text)
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number] if number < len(lines) else ""


def _characters(line: str, units: int, encoding: str | None) -> int:
    """Return how many characters of a line so many code units are; a half one does not count."""
    if line.isascii() or encoding == types.PositionEncodingKind.Utf32:
        return min(units, len(line))
    if encoding == types.PositionEncodingKind.Utf8:
        return len(line.encode("utf-8", "surrogatepass")[:units].decode("utf-8", "ignore"))
    return len(line.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "ignore"))


def _spellings(uri: str) -> Iterator[str]:
    """Yield what pygls' workspace may keep a document under: its URI, unquoted, as it came.

    VS Code writes a drive in lower case, `file:///c%3A/x`, and most others as Windows does.
    """
    plain = unquote(uri)
    yield plain
    if _DRIVE.search(plain):
        yield _DRIVE.sub(lambda drive: drive[0].swapcase(), plain)
