"""Walks of every sandbox: what is found, in which order, within which bounds, what is ignored."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from treadle.sandbox import sandbox, walking
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import Sandbox, Walk

Fill = Callable[[Mapping[str, bytes]], Sandbox]

# Generous for a busy machine.
_BOUND_SECONDS = 10.0


def _empty(*paths: str) -> dict[str, bytes]:
    return dict.fromkeys(paths, b"")


async def test_files_are_found_in_the_order_of_their_paths(fill: Fill) -> None:
    files = _empty("b", "a/b", "a-b", "a.b", "a/a/z", "Z", ".hidden", "ü", "a b/c")
    assert await fill(files).walk(".") == Walk(sorted(files), is_whole=True)


async def test_a_walk_begins_at_a_folder_or_at_one_file(fill: Fill) -> None:
    box = fill(_empty("a/b/c", "a/d", "ab/e"))
    assert await box.walk("./a/") == Walk(["a/b/c", "a/d"], is_whole=True)
    assert await box.walk("a/b/../d") == Walk(["a/d"], is_whole=True)


async def test_a_walk_of_nothing_finds_nothing(fill: Fill) -> None:
    assert await fill({}).walk(".") == Walk([], is_whole=True)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no", FileNotFoundError),
        ("a.txt/b", NotADirectoryError),
        ("..", PermissionError),
        ("", OSError),
        ("a\0", OSError),
    ],
)
async def test_a_walk_that_cannot_begin_says_why(
    fill: Fill, tmp_path: Path, path: str, error: type[OSError]
) -> None:
    with pytest.raises(error) as caught:
        await fill(_empty("a.txt")).walk(path)
    assert caught.value.strerror
    assert str(tmp_path) not in str(caught.value)


async def test_a_walk_ends_at_its_bound_of_files_and_says_so(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "WALK_LIMIT_FILES", 3)
    assert await fill(_empty("a/x", "b", "c")).walk(".") == Walk(["a/x", "b", "c"], is_whole=True)
    box = fill(_empty("a/x", "b", "c", "d"))
    assert await box.walk(".") == Walk(["a/x", "b", "c"], is_whole=False)


async def test_a_walk_enters_only_so_deep_and_says_so(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "DEPTH_LIMIT", 2)
    box = fill(_empty("1/2/3/deep", "1/2/found", "z"))
    assert await box.walk(".") == Walk(["1/2/found", "z"], is_whole=False)
    assert await box.walk("1/2/3") == Walk(["1/2/3/deep"], is_whole=True)


async def test_a_walk_looks_at_only_so_many_entries_and_says_so(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "ENTRIES_LIMIT", 4)
    found = await fill({**_empty(*"abcd"), ".gitignore": b"*"}).walk(".")
    assert (found.files, found.is_whole) == ([], False)


async def test_a_cancelled_walk_goes_no_further(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go = threading.Event(), threading.Event()
    entered = []
    within = walking._within

    def wait_at_first(rules: Any, branch: Any, prefix: str) -> Any:
        entered.append(prefix)
        reached.set()
        assert go.wait(_BOUND_SECONDS)
        return within(rules, branch, prefix)

    monkeypatch.setattr(walking, "_within", wait_at_first)
    task = asyncio.create_task(fill(_empty("a/b", "c/d")).walk("."))
    assert await asyncio.to_thread(reached.wait, _BOUND_SECONDS)
    task.cancel()
    await asyncio.sleep(0)  # it is told
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert entered == [""]


async def test_a_folder_that_goes_while_others_are_walked_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    within = walking._within

    def swap_later_ones(rules: Any, branch: Any, prefix: str) -> Any:
        if not prefix:
            shutil.rmtree(tmp_path / "a")
            (tmp_path / "b").rename(tmp_path / "moved")
            (tmp_path / "b").symlink_to("moved")
        return within(rules, branch, prefix)

    monkeypatch.setattr(walking, "_within", swap_later_ones)
    assert await LocalSandbox(tmp_path).walk(".") == Walk(["c/file"], is_whole=True)


async def test_ignore_files_count_where_they_lie(fill: Fill) -> None:
    box = fill(
        {
            **_empty("a.log", "keep.log", "build/x", "sub/build/y", "sub/a.log", "sub/b.tmp"),
            **_empty("only/x.txt", "only/sub/x.txt", "b.tmp"),
            ".gitignore": b"*.log\r\n!keep.log\n/build/\n# comment\n",
            "sub/.gitignore": b"!a.log\n*.tmp\n",
            "only/.gitignore": b"/x.txt\n",
        }
    )
    found = await box.walk(".")
    assert found.files == [
        ".gitignore",
        "b.tmp",
        "keep.log",
        "only/.gitignore",
        "only/sub/x.txt",
        "sub/.gitignore",
        "sub/a.log",
        "sub/build/y",
    ]
    assert (await box.walk("sub")).files == ["sub/.gitignore", "sub/a.log", "sub/build/y"]
    everything = await box.walk(".", ignored=True)
    assert len(everything.files) == 12 and "build/x" in everything.files


async def test_an_ignored_folder_that_is_named_is_walked(fill: Fill) -> None:
    files = _empty("build/x.log", "build/y", "build/in/z")
    box = fill({**files, ".gitignore": b"build\n*.log\n"})
    assert (await box.walk(".")).files == [".gitignore"]
    assert (await box.walk("build")).files == ["build/in/z", "build/x.log", "build/y"]
    assert (await box.walk("build/in")).files == ["build/in/z"]
    assert (await box.walk("build/y")).files == ["build/y"]


async def test_what_lies_in_an_ignored_folder_stays_ignored(fill: Fill) -> None:
    box = fill({**_empty("dir/keep", "dir/x"), ".gitignore": b"dir/\n!dir/keep\n"})
    assert (await box.walk(".")).files == [".gitignore"]


async def test_dot_ignore_has_the_last_word(fill: Fill) -> None:
    box = fill(
        {
            **_empty("sub/a.log", "sub/b.txt", "a.log"),
            ".ignore": b"!*.log\n",
            "sub/.gitignore": b"*.log\n*.txt\n",
            "sub/.ignore": b"!b.txt\n",
        }
    )
    files = [".ignore", "a.log", "sub/.gitignore", "sub/.ignore", "sub/a.log", "sub/b.txt"]
    assert (await box.walk(".")).files == files


async def test_nothing_of_git_is_found_but_its_exclude_file_counts(fill: Fill) -> None:
    box = fill(
        {
            **_empty(".git/HEAD", ".git/objects/aa", "a.tmp", "b", "sub/.GIT/x", "sub/a.tmp"),
            ".git/info/exclude": b"*.tmp\n",
            "sub/.gitignore": b"!a.tmp\n",
        }
    )
    for ignored, found in ((False, []), (True, ["a.tmp"])):
        files = sorted([*found, "b", "sub/.gitignore", "sub/a.tmp"])
        assert (await box.walk(".", ignored=ignored)).files == files
        assert await box.walk(".git", ignored=ignored) == Walk([], is_whole=True)
        assert await box.walk(".git/HEAD", ignored=ignored) == Walk([], is_whole=True)


async def test_a_repository_in_a_repository_has_its_own_rules(fill: Fill) -> None:
    box = fill({**_empty("in/.git/HEAD", "in/a.log", "a.log"), ".gitignore": b"*.log\n"})
    assert (await box.walk(".")).files == [".gitignore", "in/a.log"]


async def test_lines_that_are_no_pattern_are_passed_over(fill: Fill) -> None:
    lines = [b"!", b"/", b"[z-a]", b"[", b"a[[b]", b"\xff\xfe", b"ends\\", b"***/" * 99, b"*.log"]
    box = fill({**_empty("a", "x.log"), ".gitignore": b"\xef\xbb\xbf" + b"\n".join(lines)})
    assert (await box.walk(".")).files == [".gitignore", "a"]


@pytest.mark.parametrize("pattern", [b"*a" * 40 + b"b", b"**/a/" * 40 + b"b", b"a*/*a" * 20])
async def test_a_pattern_made_to_take_for_ever_does_not(fill: Fill, pattern: bytes) -> None:
    files = _empty("a" * 250, "/".join("a" * 60))
    box = fill({**files, ".gitignore": pattern})
    found = await asyncio.wait_for(box.walk("."), _BOUND_SECONDS)
    assert found.files == [".gitignore", *sorted(files)]


async def test_what_a_killed_writer_left_is_not_found(fill: Fill) -> None:
    box = fill(_empty("a", ".treadle-0123456789abcdef.tmp", ".treadle-notes", "sub/b"))
    assert (await box.walk(".", ignored=True)).files == [".treadle-notes", "a", "sub/b"]


_NAMES = ("a", "b", "foo", "x.log", "keep", "b.py", "c.txt", "#h", "!n", "sp ", "build", "Foo.log")
_ATOMS = (
    *("a", "b", "foo", "*.log", "*", "**", "keep", "?.py", "[a-c].*", "b*", "*o*", "build"),
    *("*.[pt]*", "[!a]*", "x.log", "\\#h", "\\!n", "sp\\ ", "f**o", "c.txt "),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what it is compared with")
@pytest.mark.parametrize("seed", range(25))
async def test_what_is_ignored_is_what_git_ignores(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folders = _grow(tmp_path, chance)
    for folder in {tmp_path, chance.choice(folders), chance.choice(folders)}:
        (folder / ".gitignore").write_text("\n".join(_pattern(chance) for _ in range(4)))
    _git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text(_pattern(chance))
    listed = _git(tmp_path, "ls-files", "-coz", "--exclude-standard").split("\0")
    found = await LocalSandbox(tmp_path).walk(".")
    assert found.files == sorted(filter(None, listed))


def _grow(root: Path, chance: random.Random) -> list[Path]:
    """Make folders and files, and return the folders."""
    folders = [root]
    for _ in range(6):
        folder = chance.choice(folders) / chance.choice(_NAMES)
        folder.mkdir(exist_ok=True)
        folders.append(folder)
    for _ in range(14):
        file = chance.choice(folders) / chance.choice(_NAMES)
        if not file.exists():
            file.write_text("x")
    return folders


def _pattern(chance: random.Random) -> str:
    parts = [chance.choice(_ATOMS) for _ in range(chance.choice((1, 1, 1, 2, 2, 3)))]
    begin = chance.choice(("", "", "", "!", "/", "!/"))
    return begin + "/".join(parts) + chance.choice(("", "", "/"))


def _git(folder: Path, *arguments: str) -> str:
    """Run git without anything that the person has configured, and return what it says."""
    environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "core.excludesFile=", "-C", str(folder), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, timeout=_BOUND_SECONDS
    ).stdout
