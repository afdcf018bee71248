"""What is open in an editor is what tools read, search and change, unsaved text included."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.buffers import (
    UNSAVED,
    UNVERSIONED,
    VERSIONED,
    bench,
    edit,
    grep,
    hasty_bench,
    read,
    write,
)


async def test_unsaved_text_is_read_and_searched_in_place_of_the_file(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        uri = at.editor.open(at.file("notes.txt", b"pelican\n"))
        at.file("other.txt", b"heron\n")
        at.editor.type(uri, "heron, unsaved\n")
        said = await at.run(read("notes.txt"), grep("heron"), grep("pelican"))
    assert said == [
        "1\theron, unsaved",
        "notes.txt\n1: heron, unsaved\n\nother.txt\n1: heron",
        "No line matches 'pelican' in 2 files of '.'.",
    ]


@pytest.mark.parametrize("capabilities", [VERSIONED, UNVERSIONED])
async def test_an_edit_of_unsaved_text_is_made_in_the_editor_and_undone_there(
    capabilities: dict[str, Any], tmp_path: Path
) -> None:
    async with bench(tmp_path / "root", capabilities) as at:
        file = at.file("notes.txt", b"one\ntwo\nthree\n")
        uri = at.editor.open(file)
        at.editor.type(uri, "one\nzwei\nthree\nfour\n")
        said = await at.run(read("notes.txt"), edit("notes.txt", "zwei", "deux"))
        assert said[1] == (
            "Edited notes.txt, +1 -1 lines:\n@@ -1,4 +1,4 @@\n one\n-zwei\n+deux\n three\n four\n"
            + UNSAVED
        )
        assert at.editor.shown[uri] == "one\ndeux\nthree\nfour\n"
        [asked] = at.editor.client.asked
        again = await at.run(read("notes.txt"), ("undo", {}), ("undo", {"redo": True}))
        assert again == [
            "1\tone\n2\tdeux\n3\tthree\n4\tfour",
            f"Undid edit notes.txt; notes.txt: +1 -1 lines. {UNSAVED}",
            f"Did again edit notes.txt; notes.txt: +1 -1 lines. {UNSAVED}",
        ]
        assert at.editor.shown[uri] == "one\ndeux\nthree\nfour\n"
        assert file.read_bytes() == b"one\ntwo\nthree\n"

    line = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
    edits = [{"range": line, "newText": "deux\n"}]
    document = {"uri": uri, "version": 2}
    wanted = (
        {"documentChanges": [{"textDocument": document, "edits": edits}]}
        if capabilities is VERSIONED
        else {"changes": {uri: edits}}
    )
    assert asked["params"] == {"label": "Treadle", "edit": wanted}


async def test_a_document_without_unsaved_text_is_changed_in_the_editor_too(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", b"one\n")
        uri = at.editor.open(file)
        said = await at.run(
            read("notes.txt"), write("notes.txt", "two\n"), edit("notes.txt", "two", "three")
        )
        assert said[1] == f"Wrote notes.txt: 4 bytes, +1 -1 lines. {UNSAVED}"
        assert (at.editor.shown[uri], file.read_bytes()) == ("three\n", b"one\n")
        at.editor.save(uri, file)
        [again] = await at.run(edit("notes.txt", "three", "four"))
        assert again.endswith(UNSAVED)


async def test_the_disk_counts_where_it_is_newer_and_nothing_was_typed(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", b"one\n")
        uri = at.editor.open(file)
        await at.run(read("notes.txt"))
        file.write_bytes(b"two, from a command\n")
        assert await at.run(read("notes.txt"), grep("one"), grep("two")) == [
            "1\ttwo, from a command",
            "No line matches 'one' in 1 file of '.'.",
            "notes.txt\n1: two, from a command",
        ]
        [said] = await at.run(edit("notes.txt", "two", "three"))
        assert said.endswith(
            "It was written to the disk: the editor shows another text than the file had, where "
            "the file is open without unsaved text."
        )
        assert (file.read_bytes(), at.editor.shown[uri]) == (b"three, from a command\n", "one\n")


async def test_saved_text_is_not_unsaved_any_more(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", b"one\n")
        uri = at.editor.open(file)
        at.editor.type(uri, "two\n")
        assert await at.run(read("notes.txt")) == ["1\ttwo"]
        at.editor.save(uri, file)
        file.write_bytes(b"three\n")
        assert await at.run(read("notes.txt")) == ["1\tthree"]


async def test_a_document_that_is_opened_with_unsaved_text_has_it(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        at.editor.open(at.file("notes.txt", b"one\n"), "restored\n")
        assert await at.run(read("notes.txt")) == ["1\trestored"]


async def test_a_document_that_is_closed_is_its_file(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        uri = at.editor.open(at.file("notes.txt", b"one\n"), "unsaved\n")
        assert await at.run(read("notes.txt")) == ["1\tunsaved"]
        at.editor.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert await at.run(read("notes.txt")) == ["1\tone"]


async def test_an_editor_that_takes_no_edits_has_its_files_written(tmp_path: Path) -> None:
    async with bench(tmp_path / "root", {}) as at:
        file = at.file("notes.txt", b"one\n")
        uri = at.editor.open(file)
        said = await at.run(read("notes.txt"), edit("notes.txt", "one", "two"))
        assert said[1].endswith(
            "\nIt was written to the disk: this editor takes no changes from here, where the file "
            "is open without unsaved text."
        )
        assert file.read_bytes() == b"two\n"
        at.editor.type(uri, "unsaved\n")
        refused = await at.run(read("notes.txt"), edit("notes.txt", "unsaved", "three"))
        assert refused[1] == (
            "edit failed: the file has unsaved text in the editor, and this editor takes no "
            "changes from here; nothing was changed"
        )
        assert (file.read_bytes(), at.editor.shown[uri]) == (b"two\n", "unsaved\n")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"applied": False}, "the editor refused the change"),
        (
            {"applied": False, "failureReason": "it is\nread-only."},
            "the editor refused the change (it is read-only)",
        ),
    ],
)
async def test_an_editor_that_refuses_an_edit_is_told_of(
    answer: Any, why: str, tmp_path: Path
) -> None:
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", b"one\n")
        uri = at.editor.open(file)
        at.editor.refuses = answer
        said = await at.run(read("notes.txt"), edit("notes.txt", "one", "two"))
        assert said[1].endswith(
            f"It was written to the disk: {why}, where the file is open without unsaved text."
        )
        at.editor.type(uri, "unsaved\n")
        refused = await at.run(read("notes.txt"), edit("notes.txt", "unsaved", "three"))
        assert refused[1] == (
            f"edit failed: the file has unsaved text in the editor, and {why}; nothing was changed"
        )
        assert file.read_bytes() == b"two\n"


@pytest.mark.parametrize("answer", [None, "no", {}, [1]])
async def test_an_odd_answer_to_an_edit_changes_no_file(answer: Any, tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", b"one\n")
        at.editor.open(file)
        at.editor.client.answers["workspace/applyEdit"] = lambda _: answer
        said = await at.run(read("notes.txt"), edit("notes.txt", "one", "two"))
        assert said[1] == (
            "edit failed: the editor's answer could not be understood, and may still make the "
            "change; read the file again"
        )
        assert file.read_bytes() == b"one\n"


async def test_what_is_typed_at_the_last_moment_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        file = at.file("notes.txt", b"one\n")
        uri = at.editor.open(file)
        at.editor.before_it_applies = lambda: at.editor.type(uri, "one, and a word\n")
        said = await at.run(
            read("notes.txt"), edit("notes.txt", "one", "two"), edit("notes.txt", "one", "two")
        )
        assert said[1:] == [
            "edit failed: the file has unsaved text in the editor, and the editor refused the "
            "change (the document has changed); nothing was changed",
            "notes.txt has changed since it was last read: read it again before it is edited.",
        ]
        assert (file.read_bytes(), at.editor.shown[uri]) == (b"one\n", "one, and a word\n")


async def test_an_edit_over_which_something_is_typed_at_once_says_to_read_again(
    tmp_path: Path,
) -> None:
    async with hasty_bench(tmp_path / "root", "buffers.SHOWN_SECONDS") as at:
        uri = at.editor.open(at.file("notes.txt", b"one\n"))
        # As an editor that formats what was changed, and tells of both changes in one.
        at.editor.shows_instead = "formatted\n"
        said = await at.run(read("notes.txt"), edit("notes.txt", "one", "two"))
    assert said[1].endswith(
        "The editor took the change, and shows another text since: read the file again. It is "
        "unsaved, so the file on the disk is as before."
    )
    assert at.editor.shown[uri] == "formatted\n"


@pytest.mark.parametrize(
    ("capabilities", "said", "holds"),
    [
        (
            VERSIONED,
            "It was written to the disk: the editor did not answer, where the file is open "
            "without unsaved text.",
            b"two\n",
        ),
        (
            UNVERSIONED,
            "edit failed: the editor did not answer, and may still make the change; read the "
            "file again",
            b"one\n",
        ),
    ],
)
async def test_an_editor_that_does_not_answer_is_not_waited_for(
    capabilities: dict[str, Any], said: str, holds: bytes, tmp_path: Path
) -> None:
    patience = "language_server.EDITOR_SECONDS"
    async with hasty_bench(tmp_path / "root", patience, capabilities) as at:
        file = at.file("notes.txt", b"one\n")
        at.editor.open(file)
        del at.editor.client.answers["workspace/applyEdit"]
        told = await at.run(read("notes.txt"), edit("notes.txt", "one", "two"))
        assert (told[1].endswith(said), file.read_bytes()) == (True, holds)


async def test_an_editor_that_goes_while_it_is_asked_holds_nobody_up(tmp_path: Path) -> None:
    async with bench(tmp_path / "root") as at:
        client, file = at.editor.client, at.file("notes.txt", b"one\n")
        at.editor.open(file)
        del client.answers["workspace/applyEdit"]
        asked = asyncio.ensure_future(at.run(read("notes.txt"), edit("notes.txt", "one", "two")))
        await client.until(lambda: bool(client.asked))
        assert await client.end() == 0
        await asyncio.gather(asked, return_exceptions=True)
        assert file.read_bytes() == b"one\n"
