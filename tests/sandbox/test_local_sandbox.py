"""The local sandbox against a hostile disk: links, pipes, devices, swaps."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.sandbox import local
from treadle.sandbox.holding import read_below
from treadle.sandbox.local import LocalSandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links and special files")

# Generous for a busy machine; a pipe that blocks would wait for ever.
_BOUND_SECONDS = 10.0


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


async def _read(root: Path, path: str) -> bytes:
    return await asyncio.wait_for(LocalSandbox(root).read_bytes(path), _BOUND_SECONDS)


async def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "link.txt").symlink_to("folder/a.txt")
    (root / "way").symlink_to(root / "folder")
    assert await _read(root, "link.txt") == b"A"
    assert await _read(root, "way/a.txt") == b"A"
    assert await LocalSandbox(root).names("way") == ["a.txt"]


@pytest.mark.parametrize("target", ["../outside/secret.txt", "/etc/passwd", "../nowhere"])
async def test_a_link_that_leads_outside_is_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    with pytest.raises(PermissionError) as caught:
        await _read(root, "link")
    assert target not in str(caught.value)


async def test_a_folder_link_that_leads_outside_is_refused(root: Path) -> None:
    (root / "way").symlink_to("../outside")
    for path in ("way/secret.txt", "way/../outside/secret.txt", "way/nothing"):
        with pytest.raises(PermissionError):
            await _read(root, path)
    with pytest.raises(PermissionError):
        await LocalSandbox(root).names("way")


async def test_a_way_out_and_in_again_is_judged_by_where_it_ends(root: Path) -> None:
    (root / "up").symlink_to("..")
    assert await _read(root, "up/root/folder/a.txt") == b"A"


async def test_a_link_is_listed_but_not_followed(root: Path) -> None:
    (root / "way").symlink_to("../outside")
    assert await LocalSandbox(root).names(".") == ["folder/", "way"]


async def test_a_dangling_link_and_a_circle_are_errors(root: Path) -> None:
    (root / "dangling").symlink_to("nothing")
    (root / "circle").symlink_to("circle")
    with pytest.raises(FileNotFoundError):
        await _read(root, "dangling")
    with pytest.raises(OSError, match="circle"):
        await _read(root, "circle")


async def test_absolute_paths_count_where_they_lead_inside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert await _read(root, str(root / "folder" / "a.txt")) == b"A"
    assert await _read(root, str(tmp_path / "alias" / "folder" / "a.txt")) == b"A"
    assert await _read(tmp_path / "alias", "folder/a.txt") == b"A"
    for outside in (tmp_path / "outside" / "secret.txt", root.with_name("root2"), Path("/")):
        with pytest.raises(PermissionError):
            await _read(root, str(outside))


async def test_pipes_sockets_and_devices_are_refused_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path may be no longer than some 100 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(PermissionError, match="neither a file nor a folder"):
                await _read(root, name)
    with pytest.raises(PermissionError, match="neither a file nor a folder"):
        await _read(Path("/dev"), "zero")


async def test_a_root_that_is_not_there_is_an_error_of_each_use(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await _read(tmp_path / "missing", "a.txt")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
async def test_a_file_without_permission_says_so(root: Path) -> None:
    (root / "folder" / "a.txt").chmod(0)
    with pytest.raises(PermissionError, match="Permission denied"):
        await _read(root, "folder/a.txt")


@pytest.mark.parametrize("swapped", ["folder", "folder/a.txt"])
async def test_a_swap_between_the_check_and_the_use_does_not_lead_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    (tmp_path / "outside" / "a.txt").write_text("secret")
    target = tmp_path / "outside" / swapped.partition("/")[2]

    def read_after_a_swap(*args: Any) -> bytes:
        (root / swapped).rename(tmp_path / "moved")
        (root / swapped).symlink_to(target)
        return read_below(*args)

    monkeypatch.setattr(local, "read_below", read_after_a_swap)
    with pytest.raises(OSError, match=r"link|outside|not a folder"):
        await _read(root, "folder/a.txt")


async def test_nothing_stays_open(root: Path) -> None:
    (root / "link").symlink_to("../outside/secret.txt")
    os.mkfifo(root / "pipe")
    await _read(root, "folder/a.txt")
    before = _open_descriptors()
    for path in ("folder/a.txt", "folder", "folder/no", "no/no", "folder/a.txt/x", "link", "pipe"):
        try:
            await _read(root, path)
        except OSError:
            continue
    await LocalSandbox(root).names("folder")
    assert _open_descriptors() == before
