"""The tools `write` and `edit`, as a model meets them."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.calls import Caller, in_memory, on_disk
from treadle.sandbox.virtual import VirtualSandbox
from treadle.tools.files.replacing import Replacement, replace_all


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
