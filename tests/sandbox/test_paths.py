"""Paths judged for systems that take them for something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.sandbox import paths
from treadle.sandbox.paths import is_within, parts_below, spelled_below, windows_refuses

_ROOT = "C:\\work\\project"


@pytest.mark.parametrize(
    "path",
    [
        *("CON", "con", "nul", "NUL.txt", "folder/aux.c", "COM1", "lpt9.log", "COM¹", "CONIN$"),
        *("nul .txt", "PRN/x", "folder\\con\\x"),
        *("a.", "a ", "folder./x", "folder /x", "...", "a. ."),
        *("a:b", "a.txt::$DATA", "folder:x/y", "a?", "a*", "a|b", 'a"', "a<", "a\x01", "a\n"),
        *("D:\\work\\project\\a", "D:a", "\\\\host\\share\\a", "//host/share/a"),
        *("\\\\?\\C:\\work\\project\\a", "\\\\.\\pipe\\x", "C:\\work\\project\\a:b"),
    ],
)
def test_windows_refuses_what_it_would_take_for_something_else(path: str) -> None:
    assert windows_refuses(path, _ROOT)


@pytest.mark.parametrize(
    "path",
    [
        *(".", "..", "../x", "a", "a.b", ".git", "folder/a", "folder\\a", "", "a//b"),
        *("C:\\work\\project\\a", "c:/work/project/a", "console", "com", "com10", "null.txt"),
        *("my.con", "a b", "Ünï", "\\a"),
    ],
)
def test_windows_takes_other_names_as_they_are(path: str) -> None:
    assert not windows_refuses(path, _ROOT)


def test_a_share_is_refused_unless_the_root_lies_in_it() -> None:
    assert not windows_refuses("\\\\host\\share\\p\\a", "\\\\HOST\\share\\p")
    assert windows_refuses("\\\\other\\share\\p\\a", "\\\\host\\share\\p")


def test_other_systems_take_windows_names_as_they_are(tmp_path: Path) -> None:
    assert not paths.is_refused_here("CON", tmp_path)
    assert not paths.is_refused_here("a:b", tmp_path)


def test_a_path_is_spelled_as_its_folders_spell_it_where_case_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Folder").mkdir()
    (tmp_path / "Folder" / "Ünï.TXT").write_text("")
    assert spelled_below(tmp_path, ("folder", "x")) == ("folder", "x")
    monkeypatch.setattr(paths, "_is_known_otherwise", lambda *_: True)
    assert spelled_below(tmp_path, ("folder", "U\u0308nï.txt")) == ("Folder", "Ünï.TXT")
    assert spelled_below(tmp_path, ("Folder", "new.TXT")) == ("Folder", "new.TXT")


def test_two_names_of_one_file_are_two_names_where_case_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "A").hardlink_to(tmp_path / "a")
    if len(list(tmp_path.iterdir())) == 2:
        assert [spelled_below(tmp_path, (name,)) for name in "aA"] == [("a",), ("A",)]


def test_a_folder_in_other_letters_is_the_same_only_where_the_disk_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, other = tmp_path / "Root", tmp_path / "rOOT" / "a"
    root.mkdir()
    assert not is_within(other, root)
    monkeypatch.setattr(paths, "_is_same", lambda path, folder: path.name == "rOOT")
    assert parts_below(other, root) == ("a",)
    assert not is_within(tmp_path / "other" / "a", root)
