"""The tools `write`, `edit`, `remove` and `undo`, as a model meets them."""

from __future__ import annotations

import asyncio
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.calls import Caller, in_memory, on_disk
from treadle.permissions.approvals import Answer, Approvals, Question
from treadle.permissions.policy import Policy
from treadle.sandbox.virtual import VirtualSandbox
from treadle.tools.files.replacing import Replacement, replace_all
from treadle.tools.session import ToolSession


class Person:
    """Answers every question alike, after doing something, and keeps the questions."""

    def __init__(self, answer: Answer = "allow_once", meanwhile: Any = None) -> None:
        self.questions: list[Question] = []
        self._answer = answer
        self._meanwhile = meanwhile

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        if self._meanwhile is not None:
            await self._meanwhile()
        return self._answer


def _asking(files: dict[str, bytes], person: Person) -> Caller:
    session = ToolSession(approvals=Approvals(person))
    return Caller(VirtualSandbox(files), Policy("ask"), session)


async def _edited(data: bytes, *edits: tuple[str, str]) -> tuple[bytes, str]:
    """Return what becomes of a file, and what the model is told."""
    files = {"f": data}
    caller = in_memory(files)
    await caller.told("read", path="f")
    wanted = [{"old": old, "new": new} for old, new in edits]
    outcome = await caller.call("edit", path="f", edits=wanted)
    return files["f"], outcome.content


# Writing


async def test_a_new_file_is_written_with_its_folders(tmp_path: Path) -> None:
    caller = on_disk(tmp_path / "root")
    assert await caller.told("write", path="a/b.txt", content="one\ntwo\n") == (
        "Wrote a/b.txt: a new file, 8 bytes, +2 -0 lines."
    )
    assert (tmp_path / "root/a/b.txt").read_bytes() == b"one\ntwo\n"


async def test_a_file_is_written_over_only_as_it_was_read() -> None:
    files = {"f": b"one\n"}
    caller = in_memory(files)
    assert await caller.refused("write", path="f", content="x") == (
        "f exists and was not read in this session: read it before it is written over."
    )
    await caller.told("read", path="./f")
    files["f"] = b"somebody else\n"
    assert await caller.refused("write", path="f", content="x") == (
        "f has changed since it was last read: read it again before it is written over."
    )
    assert files == {"f": b"somebody else\n"}
    await caller.told("read", path="f")
    await caller.told("write", path="f", content="mine\n")
    # What it wrote itself it knows.
    await caller.told("write", path="f", content="mine again\n")
    assert files == {"f": b"mine again\n"}


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n"),
        ("a\r\n".encode("utf-16"), "ü\n", "ü\r\n".encode("utf-16")),
        (b"caf\xe9\n", "th\u00e9\n", b"th\xe9\n"),
    ],
)
async def test_a_file_that_is_written_over_keeps_its_encoding_and_line_ends(
    before: bytes, content: str, after: bytes
) -> None:
    files = {"f": before}
    caller = in_memory(files)
    await caller.told("read", path="f")
    await caller.told("write", path="f", content=content)
    assert files == {"f": after}


async def test_characters_that_the_encoding_lacks_change_nothing() -> None:
    files = {"f": b"caf\xe9\n"}
    caller = in_memory(files)
    await caller.told("read", path="f")
    said = await caller.refused("write", path="f", content="5 \u20ac\n")
    assert said == "f is in LATIN-1, which has no '\u20ac': use characters up to U+00FF."
    assert files == {"f": b"caf\xe9\n"}


async def test_the_word_for_a_secret_never_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    files = {"f": b"key=sk-0123456789\nport=1\n"}
    caller = in_memory(files)
    await caller.told("read", path="f")
    shown = "key=[secret OPENAI_API_KEY]\nport=2\n"
    assert "would put that word in its place" in await caller.refused(
        "write", path="f", content=shown
    )
    edits = [{"old": "key=[secret OPENAI_API_KEY]", "new": "x"}]
    assert "leave that line out" in await caller.refused("edit", path="f", edits=edits)
    said = await caller.told("edit", path="f", edits=[{"old": "port=1", "new": "port=2"}])
    assert "sk-0123456789" not in said
    assert files == {"f": b"key=sk-0123456789\nport=2\n"}


# Editing


async def test_edits_apply_in_order_and_show_what_they_did() -> None:
    after, said = await _edited(b"a\nb\nc\n", ("a\nb", "x\nb"), ("x", "y"))
    assert after == b"y\nb\nc\n"
    assert said == "Edited f, +1 -1 lines:\n@@ -1,3 +1,3 @@\n-a\n+y\n b\n c"


async def test_one_edit_that_fails_means_that_none_is_made() -> None:
    after, said = await _edited(b"a\nb\n", ("a", "x"), ("z", "y"))
    assert after == b"a\nb\n"
    assert said.startswith("f, edit 2 of 2: old does not occur; nothing was changed.")


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ("", "old is empty"),
        ("same", "old and new are the same"),
        ("a = 1", "old occurs 2 times, at line 1, 3. Take lines around it along"),
        ("1\tb  = 2", "Leave out the line numbers that read puts before each line."),
        ("b = 2\nif c:\nreturn", "What begins at line 2 differs from it in white space only"),
        ("retrun value", "The nearest is line 6: 'return value'."),
        ("something else", "Nothing in it is like it."),
    ],
)
async def test_text_that_is_not_there_once_says_why_and_what_to_do(old: str, why: str) -> None:
    data = b"a = 1\nb  = 2\na = 1\nif c:\n    return\nreturn value\n"
    data = data.replace(b"a = 1\nif", b"if") if "white" in why else data
    after, said = await _edited(data, (old, "same"))
    assert after == data
    assert why in said


async def test_a_text_that_overlaps_itself_is_not_unique() -> None:
    assert "old occurs 2 times" in (await _edited(b"aaa\n", ("aa", "b")))[1]


async def test_all_replaces_every_occurrence() -> None:
    files = {"f": b"aaaaa\r\na\r\n"}
    caller = in_memory(files)
    await caller.told("read", path="f")
    await caller.told("edit", path="f", edits=[{"old": "aa", "new": "b\n", "all": True}])
    assert files == {"f": b"b\r\nb\r\na\r\na\r\n"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\nb\nc\r\nd\n", b"a\nx\ny\nc\r\nd\n"),
        (b"a\r\nb\nc\r\n", b"a\r\nx\ny\nc\r\n"),
        (b"\xef\xbb\xbfb", b"\xef\xbb\xbfx\ny"),
        ("a\r\nb\r\n".encode("utf-16"), "a\r\nx\r\ny\r\n".encode("utf-16")),
    ],
)
async def test_what_is_not_edited_keeps_every_byte(before: bytes, after: bytes) -> None:
    assert (await _edited(before, ("b", "x\ny")))[0] == after


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_a_mark_that_is_given_as_a_character_is_not_doubled(encoding: str) -> None:
    files = {"f": "one\n".encode(encoding)}
    caller = in_memory(files)
    await caller.told("read", path="f")
    await caller.told("edit", path="f", edits=[{"old": "one", "new": "\ufefftwo"}])
    assert files == {"f": "two\n".encode(encoding)}
    await caller.told("write", path="f", content="\ufeffthree\n")
    assert files == {"f": "three\n".encode(encoding)}


async def test_a_mark_that_a_file_has_twice_is_left_as_it_is() -> None:
    assert (await _edited(b"\xef\xbb\xbf" * 2 + b"b", ("b", "x")))[0] == b"\xef\xbb\xbf" * 2 + b"x"


async def test_lines_match_whatever_they_end_in() -> None:
    assert (await _edited(b"a\r\nb\r\nc\r\n", ("a\nb\n", "x\n")))[0] == b"x\r\nc\r\n"
    assert (await _edited(b"a\nb\n", ("a\r\nb", "x\r\ny")))[0] == b"x\ny\n"


async def test_a_replacement_cannot_grow_a_file_beyond_what_can_be_read() -> None:
    files = {"f": b"a" * 100_000}
    caller = in_memory(files)
    await caller.told("read", path="f")
    edits = [{"old": "a", "new": "b" * 100_000, "all": True}]
    assert await caller.refused("edit", path="f", edits=edits) == (
        "f: the file would be too large; nothing was changed."
    )
    assert "occurs more than 1000 times" in await caller.refused(
        "edit", path="f", edits=[{"old": "aa", "new": "b"}]
    )


_LINES = st.text(alphabet="ab\n\r", max_size=30)


@given(_LINES, st.text(alphabet="ab\n", min_size=1, max_size=3))
def test_a_replacement_that_is_taken_back_leaves_the_text_as_it_was(text: str, old: str) -> None:
    plain = text.replace("\r\n", "\n")
    line_end = "\r\n" if "\n" in text and "\n" not in text.replace("\r\n", "") else "\n"
    if old not in plain:
        return
    done = replace_all(text, line_end, [Replacement(old, "<>", everywhere=True)], "f")
    assert done.replace("\r\n", "\n") == plain.replace(old, "<>")
    back = replace_all(done, line_end, [Replacement("<>", old, everywhere=True)], "f")
    assert back.replace("\r\n", "\n") == plain
    if line_end == "\r\n":
        assert back.replace("\r\n", "") == text.replace("\r\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_an_edit_keeps_the_mode(tmp_path: Path) -> None:
    caller = on_disk(tmp_path / "root", {"run.sh": b"echo a\n"})
    (tmp_path / "root/run.sh").chmod(0o750)
    await caller.told("read", path="run.sh")
    await caller.told("edit", path="run.sh", edits=[{"old": "a\n", "new": "b\n"}])
    assert stat.S_IMODE((tmp_path / "root/run.sh").stat().st_mode) == 0o750


# Asking


async def test_a_person_sees_the_diff_before_anything_happens() -> None:
    person = Person()
    files = {"f": b"one\ntwo"}
    caller = _asking(files, person)
    await caller.told("read", path="f")
    await caller.told("edit", path="f", edits=[{"old": "two", "new": "2\n"}])
    await caller.told("write", path="g", content="g\n")
    await caller.told("remove", path="g")
    await caller.told("undo")
    assert [(question.detail, question.preview) for question in person.questions] == [
        (
            "edit f: +1 -1 lines",
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-two\n\\ no line end at the end of the file\n+2",
        ),
        ("write g: a new file, 2 bytes, +1 -0 lines", "--- /dev/null\n+++ g\n@@ -0,0 +1,1 @@\n+g"),
        ("remove g: 2 bytes", "--- g\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-g"),
        ("undo: remove g", "--- /dev/null\n+++ g\n@@ -0,0 +1,1 @@\n+g"),
    ]


async def test_what_a_person_denies_does_not_happen() -> None:
    files = {"f": b"one\n"}
    caller = _asking(files, Person("deny"))
    await caller.told("read", path="f")
    for name, arguments in (
        ("edit", {"edits": [{"old": "one", "new": "two"}]}),
        ("write", {"content": "two"}),
        ("remove", {}),
    ):
        assert "was not allowed" in await caller.refused(name, path="f", **arguments)
    assert files == {"f": b"one\n"}


async def test_nobody_is_asked_about_what_cannot_be_done() -> None:
    person = Person()
    caller = _asking({"f": b"one\n"}, person)
    await caller.refused("write", path="f", content="two")
    await caller.refused("remove", path="g")
    await caller.refused("undo")
    assert person.questions == []


async def test_a_file_that_changes_while_a_person_thinks_is_left_alone() -> None:
    files = {"f": b"one\n"}

    async def change() -> None:
        files["f"] = b"somebody else\n"

    caller = _asking(files, Person(meanwhile=change))
    await caller.told("read", path="f")
    assert "has changed since" in await caller.refused("write", path="f", content="two")
    assert files == {"f": b"somebody else\n"}


@pytest.mark.parametrize("answer", ["allow_once", "deny"])
async def test_the_time_that_a_person_takes_to_answer_is_not_the_tools(answer: Answer) -> None:
    answered: list[float] = []

    async def think() -> None:
        await asyncio.sleep(0.05)
        answered.append(time.monotonic())

    outcome = await _asking({}, Person(answer, think)).call("write", path="f", content="1")
    ran = time.monotonic() - answered[0]
    assert 0 < outcome.seconds <= ran if outcome.ok else outcome.seconds == 0


async def test_undo_takes_back_what_the_person_was_shown_and_nothing_else() -> None:
    files: dict[str, bytes] = {}
    first = in_memory(files)
    await first.told("write", path="f", content="one\n")

    async def write_more() -> None:
        await first.told("write", path="g", content="two\n")

    session = first.session
    session.approvals = Approvals(Person(meanwhile=write_more))
    asking = Caller(first.sandbox, Policy("ask"), session)
    assert "Another change was made meanwhile" in await asking.refused("undo")
    assert files == {"f": b"one\n", "g": b"two\n"}


# Removing and undoing


async def test_undo_and_redo_go_back_and_forth_byte_for_byte() -> None:
    files = {"bin": bytes(range(256)), "f": b"\xef\xbb\xbfa\r\n"}
    before = dict(files)
    caller = in_memory(files)
    await caller.told("remove", path="bin")
    await caller.told("read", path="f")
    await caller.told("edit", path="f", edits=[{"old": "a", "new": "b"}])
    await caller.told("write", path="new/g", content="g")
    after = dict(files)
    for _ in range(3):
        await caller.told("undo")
    assert files == before
    assert "There is nothing to undo" in await caller.refused("undo")
    assert await caller.told("undo", redo=True) == "Did again remove bin; bin: removed."
    for _ in range(2):
        await caller.told("undo", redo=True)
    assert files == after
    assert await caller.refused("undo", redo=True) == (
        "Nothing was undone that could be done again."
    )
    # What it put back it knows, so that work goes on.
    await caller.told("write", path="f", content="c\n")
    assert "Nothing was undone" in await caller.refused("undo", redo=True)


async def test_undo_leaves_alone_what_somebody_else_changed_and_then_goes_on() -> None:
    files = {"f": b"one\n", "g": b"1\n"}
    caller = in_memory(files)
    for path, content in (("g", "2\n"), ("f", "two\n"), ("g", "3\n")):
        await caller.told("read", path=path)
        await caller.told("write", path=path, content=content)
    assert await caller.told("undo") == "Undid write g; g: +1 -1 lines."
    files["f"] = b"somebody else\n"
    assert await caller.refused("undo") == (
        "f was changed by somebody else since (write f), so nothing was undone or done again. "
        "Read it, and edit it by hand; undo passes over this change now: call it again for the "
        "next one."
    )
    assert await caller.told("undo") == "Undid write g; g: +1 -1 lines."
    assert files == {"f": b"somebody else\n", "g": b"1\n"}
    assert "There is nothing to undo" in await caller.refused("undo")
    assert await caller.told("undo", redo=True) == "Did again write g; g: +1 -1 lines."
    files["g"] = b"somebody else\n"
    assert "redo passes over this change now" in await caller.refused("undo", redo=True)
    assert "Nothing was undone" in await caller.refused("undo", redo=True)


@pytest.mark.parametrize("path", ["f", "f/g"])
async def test_undo_passes_over_a_file_in_whose_place_something_else_is(
    tmp_path: Path, path: str
) -> None:
    root = tmp_path / "root"
    caller = on_disk(root, {"before": b"1"})
    await caller.told("remove", path="before")
    await caller.told("write", path=path, content="mine\n")
    if path == "f":
        (root / "f").unlink()
        (root / "f").mkdir()
    else:
        (root / "f/g").unlink()
        (root / "f").rmdir()
        (root / "f").write_bytes(b"somebody else's")
    assert "was changed by somebody else since" in await caller.refused("undo")
    assert await caller.told("undo") == "Undid remove before; before: +1 -0 lines."


async def test_what_a_person_is_not_even_asked_about_is_passed_over_as_well() -> None:
    files = {"f": b"1", "g": b"1"}
    person = Person()
    caller = _asking(files, person)
    await caller.told("remove", path="g")
    await caller.told("remove", path="f")
    files["f"] = b"somebody else"
    assert "was changed by somebody else since" in await caller.refused("undo")
    await caller.told("undo")
    assert files == {"f": b"somebody else", "g": b"1"}
    assert [question.detail for question in person.questions][2:] == ["undo: remove g"]


async def test_a_folder_is_removed_when_it_is_empty(tmp_path: Path) -> None:
    caller = on_disk(tmp_path / "root", {"d/f": b"x"})
    assert await caller.refused("remove", path="d") == (
        "d is a folder that is not empty: it holds f. Remove those first."
    )
    await caller.told("remove", path="d/f")
    assert await caller.told("remove", path="d") == (
        "Removed the empty folder d; undo does not bring it back."
    )
    assert not (tmp_path / "root/d").exists()
    await caller.told("undo")
    assert (tmp_path / "root/d/f").read_bytes() == b"x"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
async def test_removing_a_link_leaves_what_it_leads_to(tmp_path: Path) -> None:
    caller = on_disk(tmp_path / "root", {"f": b"x"})
    (tmp_path / "root/link").symlink_to("f")
    assert await caller.told("remove", path="link") == (
        "Removed the link link; the file that it leads to, f, is left."
    )
    assert [entry.name for entry in (tmp_path / "root").iterdir()] == ["f"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
async def test_what_was_changed_through_a_link_is_undone_after_the_link_was_removed(
    tmp_path: Path,
) -> None:
    caller = on_disk(tmp_path / "root", {"f": b"one\n"})
    (tmp_path / "root/link").symlink_to("f")
    await caller.told("read", path="link")
    await caller.told("edit", path="link", edits=[{"old": "one", "new": "two"}])
    await caller.told("remove", path="link")
    await caller.told("edit", path="f", edits=[{"old": "two", "new": "three"}])
    assert await caller.told("undo") == "Undid edit f; f: +1 -1 lines."
    assert await caller.told("undo") == "Undid edit f; f: +1 -1 lines."
    assert (tmp_path / "root/f").read_bytes() == b"one\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
async def test_a_file_is_one_file_by_whatever_name_it_is_reached(tmp_path: Path) -> None:
    root = tmp_path / "root"
    caller = on_disk(root, {"d/f": b"one\n"})
    (root / "link").symlink_to("d/f")
    await caller.told("read", path=str(root / "d" / "f"))
    await caller.told("edit", path="link", edits=[{"old": "one", "new": "two"}])
    await caller.told("write", path="d/../d/f", content="three\n")
    assert ((root / "link").is_symlink(), (root / "d/f").read_bytes()) == (True, b"three\n")
    assert await caller.told("undo") == "Undid write d/f; d/f: +1 -1 lines."
    assert await caller.told("undo") == "Undid edit d/f; d/f: +1 -1 lines."
    assert ((root / "link").is_symlink(), (root / "d/f").read_bytes()) == (True, b"one\n")


class Racing(VirtualSandbox):
    """Somebody writes a file right before a tool does."""

    async def write_bytes(self, path: str, data: bytes, *, before: bytes | None) -> str:
        self.files[path] = b"somebody else\n"
        return await super().write_bytes(path, data, before=before)


@pytest.mark.parametrize("files", [{}, {"f": b"one\n"}])
async def test_a_file_that_changes_at_the_last_moment_is_left_alone(
    files: dict[str, bytes],
) -> None:
    caller = Caller(Racing(files))
    if files:
        await caller.told("read", path="f")
    assert await caller.refused("write", path="f", content="mine\n") == (
        "write failed: the file is not what it was when it was last looked at; read it again"
    )
    assert files == {"f": b"somebody else\n"}


async def test_writes_of_one_batch_follow_one_another() -> None:
    files = {"f": b"0\n"}
    caller = in_memory(files)
    await caller.told("read", path="f")
    await asyncio.gather(
        *(
            caller.told("edit", path="f", edits=[{"old": "0\n", "new": f"0\n{number}\n"}])
            for number in range(1, 6)
        )
    )
    assert sorted(files["f"].split()) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    for _ in range(5):
        await caller.told("undo")
    assert files == {"f": b"0\n"}
