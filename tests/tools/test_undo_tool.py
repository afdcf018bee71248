"""The tools `remove` and `undo`, as a model meets them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.calls import Person, asking, in_memory, on_disk


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
    caller = asking(files, person)
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
