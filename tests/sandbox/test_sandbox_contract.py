"""The sandbox seam's contract, kept by every sandbox that ships."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from treadle.sandbox import holding, sandbox
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox

Fill = Callable[[Mapping[str, bytes]], Sandbox]


def _local(root: Path, files: Mapping[str, bytes]) -> Sandbox:
    root.mkdir(exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return LocalSandbox(root)


@pytest.fixture(params=["virtual", "local", "local, opened by path"])
def fill(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fill:
    if request.param == "virtual":
        return lambda files: VirtualSandbox(dict(files))
    monkeypatch.setattr(holding, "HAS_DIR_FD", request.param == "local")
    return lambda files: _local(tmp_path / "root", files)


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
