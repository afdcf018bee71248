"""What is open in an editor is what tools read, search and change, unsaved text included."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.buffers import UNVERSIONED, VERSIONED, FakeEditor, Script
from support.daemon import daemon, serving_after
from support.model_server import ModelServer
from support.person import conversation, on, write_agent

UNSAVED = (
    "The change is in the editor, unsaved: the file on the disk, which commands see, is as before "
    "until the person saves it."
)


class Bench:
    """A folder, an editor, and an agent that changes files without asking."""

    def __init__(self, root: Path, editor: FakeEditor, script: Script) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.editor = editor
        self._script = script

    async def run(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        return await self._script.run(self.editor.client, *calls)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir())

    def file(self, name: str, data: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


@contextlib.asynccontextmanager
async def bench(root: Path, capabilities: dict[str, Any] = VERSIONED) -> AsyncIterator[Bench]:
    write_agent("coder", permissions="auto", sandbox="local", cwd=root)
    script = Script()
    async with conversation(script, capabilities=capabilities) as (client, _):
        yield Bench(root, FakeEditor(client), script)


@contextlib.asynccontextmanager
async def hasty_bench(
    root: Path, patience: str, capabilities: dict[str, Any] = VERSIONED
) -> AsyncIterator[Bench]:
    """The same, with a daemon that waits less for its editor: a module's constant, such as
    `buffers.SHOWN_SECONDS`.
    """
    write_agent("coder", permissions="auto", sandbox="local", cwd=root)
    script = Script()
    module, _, name = patience.partition(".")
    line = f"from treadle.server.editor import {module}; {module}.{name} = 0.05"
    program = serving_after(root.parent, line)
    async with (
        ModelServer(script) as server,
        daemon(env=on(server), initialize=False, program=program) as client,
    ):
        await client.initialize(capabilities=capabilities)
        yield Bench(root, FakeEditor(client), script)


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "read", {"path": path}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit", {"path": path, "edits": [{"old": old, "new": new}]}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write", {"path": path, "content": content}


def grep(pattern: str) -> tuple[str, dict[str, Any]]:
    return "grep", {"pattern": pattern}


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
