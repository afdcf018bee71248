"""The sandbox seam's contract, kept by every sandbox that ships; walks have a file of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from treadle.sandbox import sandbox, virtual
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import Changed, Sandbox
from treadle.sandbox.virtual import VirtualSandbox

Fill = Callable[[Mapping[str, bytes]], Sandbox]


FILES = {"a.txt": b"A", "deep/er/b.bin": b"\0\xff", "deep/c.txt": b"", "Ünï.txt": b"u"}


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.txt", b"A"),
        ("./a.txt", b"A"),
        ("deep//er/b.bin", b"\0\xff"),
        ("deep/../a.txt", b"A"),
        ("missing/../a.txt", b"A"),
        ("deep/c.txt", b""),
        ("Ünï.txt", b"u"),
    ],
)
async def test_a_file_is_read_however_its_path_is_spelled(
    fill: Fill, path: str, data: bytes
) -> None:
    assert await fill(FILES).read_bytes(path) == data


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no.txt", FileNotFoundError),
        ("no/no.txt", FileNotFoundError),
        ("deep", IsADirectoryError),
        (".", IsADirectoryError),
        ("a.txt/b", NotADirectoryError),
        ("..", PermissionError),
        ("../root.txt", PermissionError),
        ("deep/../../a.txt", PermissionError),
        ("deep/er/../../../etc/passwd", PermissionError),
        ("", OSError),
        ("a\0.txt", OSError),
        ("\ud800/../../..", OSError),
        ("x" * 5000, OSError),
    ],
)
async def test_what_cannot_be_read_says_why_and_names_only_the_given_path(
    fill: Fill, tmp_path: Path, path: str, error: type[OSError]
) -> None:
    with pytest.raises(error) as caught:
        await fill(FILES).read_bytes(path)
    assert caught.value.strerror
    assert str(tmp_path) not in str(caught.value)


async def test_a_folder_lists_sorted_names_folders_marked(fill: Fill) -> None:
    box = fill(FILES)
    assert await box.names(".") == ["a.txt", "deep/", "Ünï.txt"]
    assert await box.names("deep/") == ["c.txt", "er/"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("a.txt", NotADirectoryError),
        ("no", FileNotFoundError),
        ("..", PermissionError),
        ("a\0", OSError),
    ],
)
async def test_what_is_no_folder_cannot_be_listed(
    fill: Fill, path: str, error: type[OSError]
) -> None:
    with pytest.raises(error):
        await fill(FILES).names(path)


async def test_an_empty_sandbox_lists_nothing(fill: Fill) -> None:
    assert await fill({}).names(".") == []


async def test_a_file_over_the_limit_is_refused_with_the_limit_in_the_text(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "READ_LIMIT_BYTES", 10)
    box = fill({"fits": b"x" * 10, "large": b"x" * 11})
    assert await box.read_bytes("fits") == b"x" * 10
    with pytest.raises(OSError, match="too large to read whole"):
        await box.read_bytes("large")


async def test_many_reads_at_once_do_not_disturb_each_other(fill: Fill) -> None:
    files = {f"{number}.txt": str(number).encode() for number in range(50)}
    box = fill(files)
    assert await asyncio.gather(*map(box.read_bytes, files)) == list(files.values())


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a.txt", "a.txt"),
        ("./deep//er/../c.txt", "deep/c.txt"),
        ("deep/", "deep"),
        (".", "."),
        ("deep/..", "."),
        ("new/file.txt", "new/file.txt"),
    ],
)
async def test_a_file_has_one_name_whether_it_is_there_or_not(
    fill: Fill, path: str, place: str
) -> None:
    assert await fill(FILES).place(path) == place


async def test_nothing_is_unsaved(fill: Fill) -> None:
    assert list(await fill(FILES).unsaved()) == []


async def test_a_new_file_is_written_and_its_folders_are_made(fill: Fill) -> None:
    box = fill(FILES)
    await box.write_bytes("new/er/b.txt", b"B", before=None)
    assert await box.read_bytes("new/er/b.txt") == b"B"
    assert await _all(box) == {**FILES, "new/er/b.txt": b"B"}


@pytest.mark.parametrize("data", [b"", b"\0\r\n\xff" * 50_000])
async def test_a_file_is_replaced_by_exactly_these_bytes(fill: Fill, data: bytes) -> None:
    box = fill(FILES)
    await box.write_bytes("deep/er/b.bin", data, before=FILES["deep/er/b.bin"])
    assert await _all(box) == {**FILES, "deep/er/b.bin": data}


@pytest.mark.parametrize(
    ("path", "before"),
    [
        ("a.txt", b"a"),
        ("a.txt", b""),
        ("a.txt", b"AA"),
        ("a.txt", None),
        ("deep/c.txt", None),
        ("no.txt", b""),
        ("no/no.txt", b"x"),
    ],
)
async def test_a_file_that_is_not_what_it_was_is_left_alone(
    fill: Fill, path: str, before: bytes | None
) -> None:
    box = fill(FILES)
    with pytest.raises(Changed) as caught:
        await box.write_bytes(path, b"new", before=before)
    assert (caught.value.strerror, caught.value.filename) == (sandbox.CHANGED, path)
    assert await _all(box) == FILES


@pytest.mark.parametrize(
    ("path", "before", "error"),
    [
        ("deep", None, IsADirectoryError),
        (".", None, IsADirectoryError),
        ("new/", None, IsADirectoryError),
        ("a.txt/b", None, NotADirectoryError),
        ("a.txt/b", b"x", NotADirectoryError),
        ("a.txt/b/c", None, NotADirectoryError),
        ("..", None, PermissionError),
        ("../new", None, PermissionError),
        ("deep/../../new", None, PermissionError),
        ("", None, OSError),
        ("a\0", None, OSError),
        ("\ud800", None, OSError),
        ("new/" + "x" * 300, None, OSError),
    ],
)
async def test_what_cannot_be_written_says_why_and_changes_nothing(
    fill: Fill, tmp_path: Path, path: str, before: bytes | None, error: type[OSError]
) -> None:
    box = fill(FILES)
    with pytest.raises(error) as caught:
        await box.write_bytes(path, b"new", before=before)
    assert caught.value.strerror and not isinstance(caught.value, Changed)
    assert str(tmp_path) not in str(caught.value)
    assert await _all(box) == FILES
    assert await box.names(".") == ["a.txt", "deep/", "Ünï.txt"]


async def test_what_could_not_be_read_back_is_not_written(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "READ_LIMIT_BYTES", 10)
    box = fill({})
    await box.write_bytes("fits", b"x" * 10, before=None)
    with pytest.raises(OSError, match="too large"):
        await box.write_bytes("large", b"x" * 11, before=None)
    assert await box.names(".") == ["fits"]


async def test_of_writers_at_once_exactly_one_wins(fill: Fill) -> None:
    box = fill({"there": b"0"})
    for path, before in (("there", b"0"), ("folder/new", None)):
        writes = [box.write_bytes(path, b"%d" % number, before=before) for number in range(1, 9)]
        ended = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ended) == [*["Changed"] * 7, "str"]
        assert await box.read_bytes(path) == b"%d" % (ended.index("") + 1)
    assert await _all(box) == {path: await box.read_bytes(path) for path in ("there", "folder/new")}


async def test_a_file_is_removed_and_its_folder_stays_until_it_is_removed_too(fill: Fill) -> None:
    box = fill(FILES)
    await box.remove("deep/er/b.bin", before=b"\0\xff")
    assert await box.names("deep/er") == []
    assert await box.names("deep") == ["c.txt", "er/"]
    await box.remove("deep/er/", before=None)
    assert await box.names("deep") == ["c.txt"]


@pytest.mark.parametrize(
    ("path", "before", "error"),
    [
        ("a.txt", b"other", Changed),
        ("a.txt", None, Changed),
        ("no.txt", None, FileNotFoundError),
        ("no.txt", b"A", FileNotFoundError),
        ("no/no.txt", None, FileNotFoundError),
        ("a.txt/b", None, NotADirectoryError),
        ("deep", b"", IsADirectoryError),
        ("deep", None, OSError),
        (".", None, OSError),
        ("deep/..", None, OSError),
        ("..", None, PermissionError),
        ("../root", None, PermissionError),
        ("", None, OSError),
    ],
)
async def test_what_cannot_be_removed_says_why_and_stays(
    fill: Fill, tmp_path: Path, path: str, before: bytes | None, error: type[OSError]
) -> None:
    box = fill(FILES)
    with pytest.raises(error) as caught:
        await box.remove(path, before=before)
    assert caught.value.strerror
    assert str(tmp_path) not in str(caught.value)
    assert await _all(box) == FILES


async def test_a_folder_with_too_many_entries_is_not_listed(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "WALK_LIMIT_FILES", 3)
    with pytest.raises(OSError, match="too many to list"):
        await fill(dict.fromkeys("abcd", b"")).names(".")
    assert await fill({"x/" + name: b"" for name in "abc"}).names("x") == ["a", "b", "c"]


async def test_a_virtual_sandbox_holds_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "TOTAL_LIMIT_BYTES", 10)
    box = VirtualSandbox({"a": b"12345"})
    await box.write_bytes("b", b"12345", before=None)
    with pytest.raises(OSError, match="full"):
        await box.write_bytes("c", b"1", before=None)
    await box.write_bytes("b", b"54321", before=b"12345")
    assert box.files == {"a": b"12345", "b": b"54321"}


def test_processes_start_in_a_local_sandbox_only(tmp_path: Path) -> None:
    assert (VirtualSandbox().folder, LocalSandbox(tmp_path).folder) == (None, tmp_path)


async def _all(box: Sandbox) -> dict[str, bytes]:
    """Return everything that is in a sandbox."""
    found = await box.walk(".", ignored=True)
    assert found.is_whole
    return {path: await box.read_bytes(path) for path in found.files}
