"""What a document is as a file, whatever encoding, mark and line ends the file has."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from support.waiting import PATIENCE_SECONDS
from treadle.server.editor.documents import Document, Documents
from treadle.server.editor.saving import as_bytes, as_text, holds, look

FILES = [None, b"", b"a\n", "é\n".encode("latin-1"), "é".encode("utf-8-sig"), "é".encode("utf-16")]

TEXT = st.text(st.sampled_from("ab\n\r\té\u00c3\u00a9😀\u2028"), max_size=12)


@settings(max_examples=300, deadline=None)
@given(disk=st.sampled_from(FILES), text=TEXT)
def test_a_file_holds_the_text_that_was_saved_in_it(disk: bytes | None, text: str) -> None:
    saved = as_bytes(text, disk)
    assert (as_text(saved), holds(saved, text)) == (text, True)


@pytest.mark.parametrize(
    ("disk", "text", "saved"),
    [
        ("é".encode("latin-1"), "éé", "éé".encode("latin-1")),
        ("é".encode("latin-1"), "é😀", "é😀".encode()),
        ("é".encode("latin-1"), "Ã©", "Ã©".encode()),
        ("é".encode("utf-8-sig"), "éé", "éé".encode("utf-8-sig")),
        (b"\x89PNG\r\n\x1a\n", "text", b"text"),
        (None, "half \ud800", b"half ?"),
    ],
)
def test_a_text_is_saved_in_the_encoding_of_its_file_where_that_can_hold_it(
    disk: bytes | None, text: str, saved: bytes
) -> None:
    assert as_bytes(text, disk) == saved


@pytest.mark.parametrize(
    ("disk", "text"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\nb\r\n", "a\r\nb\r\n"),
        ("é".encode("utf-8-sig"), "\ufeffé"),
        ("é".encode("latin-1"), "é"),
        ("é".encode("utf-16"), "é"),
    ],
)
def test_line_ends_mark_and_encoding_make_no_other_text(disk: bytes, text: str) -> None:
    assert holds(disk, text)


@pytest.mark.parametrize(
    ("disk", "text"), [(b"a\n", "a"), (b"a", "b"), (b"\x89PNG\r\n\x1a\n", ""), (b"", "a")]
)
def test_another_text_is_another_text(disk: bytes, text: str) -> None:
    assert not holds(disk, text)


class Opened:
    """A document that is open, and how often somebody had to look at its file."""

    def __init__(self, file: Path, text: str) -> None:
        self.uri = file.as_uri()
        self.looks: list[Document] = []
        self._documents = Documents(None)
        self._documents.on_unknown = self.looks.append
        item = types.TextDocumentItem(self.uri, "", 1, text)
        self._documents.put_text_document(item)
        self.document = self._documents.files()[file]

    def type(self, text: str) -> None:
        self._documents.update_text_document(
            types.VersionedTextDocumentIdentifier(version=2, uri=self.uri),
            types.TextDocumentContentChangeWholeDocument(text),
        )


async def test_a_file_is_looked_at_when_its_document_opens_and_when_it_is_first_changed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a é.txt"
    await asyncio.to_thread(file.write_text, "one\n", encoding="utf-8")
    opened = Opened(file, "one\n")
    await look(opened.document)
    assert (len(opened.looks), opened.document.is_saved) == (1, True)

    # An editor loads a file anew that another program has changed.
    await asyncio.to_thread(file.write_text, "two\n", encoding="utf-8")
    opened.type("two\n")
    assert (len(opened.looks), opened.document.is_saved) == (2, False)
    await look(opened.document)
    assert opened.document.is_saved

    # A person types, and is not looked at over each key.
    for text in ("two!\n", "two!!\n", "two!!!\n"):
        opened.type(text)
        await look(opened.document)
    assert (len(opened.looks), opened.document.is_saved) == (3, False)


@pytest.mark.skipif(os.name == "nt", reason="there are no such files")
async def test_what_is_no_file_is_not_opened_to_be_looked_at(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", tmp_path, tmp_path / "missing", Path("/dev/zero")):
        document = Opened(file, "one\n").document
        async with asyncio.timeout(PATIENCE_SECONDS):
            await look(document)
        assert not document.is_saved
