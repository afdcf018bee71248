"""Which file a document is: one that is only in the editor, outside, linked, encoded otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.buffers import (
    UNSAVED,
    bench,
    edit,
    grep,
    read,
    write,
)


async def test_a_file_that_is_only_in_the_editor_is_found_and_changed_there(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        at.file("old.txt", b"old\n")
        uri = at.editor.open(at.root / "new" / "er.txt", "heron\n")
        at.editor.open(at.root / "empty.txt", "")
        said = await at.run(
            read("."),
            read("new"),
            ("glob", {"pattern": "*.txt"}),
            ("glob", {"pattern": "*.txt", "path": "new"}),
            grep("heron"),
            read("new/er.txt"),
            edit("new/er.txt", "heron", "egret"),
            read("empty.txt"),
        )
        assert said[:-1] == [
            ". is a folder:\nnew/\nold.txt",
            "new is a folder:\ner.txt",
            "new/er.txt\nold.txt",
            "new/er.txt",
            "new/er.txt\n1: heron",
            "1\theron",
            "Edited new/er.txt, +1 -1 lines:\n@@ -1,1 +1,1 @@\n-heron\n+egret\n" + UNSAVED,
        ]
        assert "empty.txt" in said[-1] and not said[-1].startswith("empty.txt is an empty file")
        assert (at.editor.shown[uri], at.names()) == ("egret\n", ["old.txt"])


async def test_a_new_file_is_written_into_the_empty_document_that_waits_for_it(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path / "root") as at:
        uri = at.editor.open(at.root / "new.txt", "")
        said = await at.run(write("new.txt", "heron\n"), ("undo", {}), ("undo", {"redo": True}))
        assert said[0] == f"Wrote new.txt: a new file, 6 bytes, +1 -0 lines. {UNSAVED}"
        assert said[1:] == [
            "Undid write new.txt; new.txt: removed.",
            f"Did again write new.txt; new.txt: +1 -0 lines. {UNSAVED}",
        ]
        assert (at.editor.shown[uri], at.names()) == ("heron\n", [])


async def test_a_file_with_unsaved_text_is_not_removed(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        file, other = at.file("notes.txt", b"one\n"), at.file("other.txt", b"two\n")
        uri = at.editor.open(file)
        at.editor.open(other)
        at.editor.type(uri, "unsaved\n")
        said = await at.run(
            read("notes.txt"), ("remove", {"path": "notes.txt"}), ("remove", {"path": "other.txt"})
        )
        assert said[1:] == [
            "remove failed: the file has unsaved text in the editor, which would be all that is "
            "left of it; nothing was removed. Ask the person to save or close it",
            "Removed other.txt, 4 bytes; undo brings it back.",
        ]
        assert at.names() == ["notes.txt"]


async def test_documents_outside_the_folder_are_never_seen(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    async with bench(tmp_path / "root") as at:
        at.file("in.txt", b"in\n")
        outside = at.editor.open(tmp_path / "outside" / "secret.txt", "heron\n")
        (at.root / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
        at.editor.open(at.root / "link.txt", "heron\n")
        at.editor.client.notify(
            "textDocument/didOpen",
            {
                "textDocument": {
                    "uri": "untitled:x",
                    "languageId": "",
                    "version": 1,
                    "text": "heron",
                }
            },
        )
        said = await at.run(
            grep("heron"),
            read("../outside/secret.txt"),
            read(str(tmp_path / "outside" / "secret.txt")),
            read("link.txt"),
            write("link.txt", "mine\n"),
            read("."),
        )
        assert said == [
            "No line matches 'heron' in 1 file of '.'.",
            *["read failed: the path leads outside the folder that this agent works in"] * 3,
            "write failed: the path leads outside the folder that this agent works in",
            ". is a folder:\nin.txt\nlink.txt",
        ]
        assert at.editor.shown[outside] == "heron\n"
        assert at.editor.client.asked == []


async def test_a_document_is_the_file_that_its_name_leads_to(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        at.file("deep/notes.txt", b"one\n")
        (at.root / "link.txt").symlink_to(Path("deep", "notes.txt"))
        uri = at.editor.open(at.root / "link.txt", "unsaved\n")
        said = await at.run(
            read("deep/../deep/notes.txt"), read("link.txt"), edit("link.txt", "unsaved", "changed")
        )
        assert said[:2] == ["1\tunsaved"] * 2
        assert at.editor.shown[uri] == "changed\n"


@pytest.mark.parametrize(
    ("data", "shown", "encoding"),
    [
        ("one\r\nè\r\n".encode(), "one\r\nè\r\n", "utf-8"),
        ("one\nè\n".encode("utf-8-sig"), "one\nè\n", "utf-8-sig"),
        ("one\nè\n".encode("latin-1"), "one\nè\n", "latin-1"),
    ],
)
async def test_encoding_mark_and_line_ends_stay_the_file_s(
    data: bytes, shown: str, encoding: str, tmp_path: Path
) -> None:
    """What was read is still known once it was saved, for it is the same bytes."""
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", data)
        uri = at.editor.open(file, shown)
        said = await at.run(read("notes.txt"), edit("notes.txt", "one", "two"), read("notes.txt"))
        assert at.editor.shown[uri] == shown.replace("one", "two")
        assert said[2] == said[0].replace("one", "two")
        at.editor.save(uri, file, encoding)
        [again] = await at.run(edit("notes.txt", "two", "three"))
        assert again.endswith(UNSAVED)
        assert at.editor.shown[uri] == shown.replace("one", "three")


@pytest.mark.skipif(os.name == "nt", reason="there are no such files")
async def test_a_document_that_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        os.mkfifo(at.root / "pipe")
        at.editor.open(at.root / "pipe", "heron\n")
        at.editor.open(Path("/dev/zero"), "heron\n")
        at.editor.open(at.root, "heron\n")
        assert await at.run(read("pipe"), grep("heron")) == [
            "read failed: this is neither a file nor a folder (a pipe, socket or device), so it is "
            "not opened",
            "There are no files in '.' to search, but for hidden and ignored ones.",
        ]
