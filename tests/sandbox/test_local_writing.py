"""Writing and removing on a hostile disk: links, pipes, devices, swaps, kills, rivals."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treadle.sandbox import local, sandbox, writing
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import Changed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links and special files")

# Generous for a busy machine; a pipe that blocks would wait for ever.
_BOUND_SECONDS = 10.0


def _tree(folder: Path) -> dict[str, str]:
    """Return what a folder holds: the text of files, the targets of links, `/` for folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = "/"
        else:
            found[name] = path.read_text() if path.is_file() else "special"
    return found


async def _write(root: Path, path: str, data: bytes, before: bytes | None) -> None:
    write = LocalSandbox(root).write_bytes(path, data, before=before)
    await asyncio.wait_for(write, _BOUND_SECONDS)


async def _remove(root: Path, path: str, before: bytes | None) -> None:
    await asyncio.wait_for(LocalSandbox(root).remove(path, before=before), _BOUND_SECONDS)


async def test_a_link_that_leads_inside_stays_and_its_file_is_replaced(root: Path) -> None:
    (root / "link").symlink_to("folder/a.txt")
    (root / "way").symlink_to(root / "folder")
    await _write(root, "link", b"B", b"A")
    await _write(root, "way/a.txt", b"C", b"B")
    await _write(root, "way/new/b.txt", b"new", None)
    assert await LocalSandbox(root).place("link") == "folder/a.txt"
    assert _tree(root) == {
        "folder": "/",
        "folder/a.txt": "C",
        "folder/new": "/",
        "folder/new/b.txt": "new",
        "link": "-> folder/a.txt",
        "way": f"-> {root / 'folder'}",
    }


async def test_a_link_to_nothing_inside_creates_what_it_names(root: Path) -> None:
    (root / "link").symlink_to("new/b.txt")
    await _write(root, "link", b"B", None)
    assert (root / "new" / "b.txt").read_text() == "B" and (root / "link").is_symlink()


@pytest.mark.parametrize("target", ["../outside/secret.txt", "../outside/new.txt", "/nowhere/x"])
async def test_a_link_that_leads_outside_is_neither_written_nor_removed_nor_placed(
    root: Path, tmp_path: Path, target: str
) -> None:
    (root / "link").symlink_to(target)
    (root / "way").symlink_to("../outside")
    before = _tree(tmp_path)
    for path in ("link", "way/secret.txt", "way/new/x", "../outside/secret.txt", "way"):
        for call in (
            _write(root, path, b"B", None),
            _write(root, path, b"B", b"secret"),
            _remove(root, path, b"secret"),
            _remove(root, path, None),
            LocalSandbox(root).place(path),
            LocalSandbox(root).walk(path),
        ):
            with pytest.raises(PermissionError) as caught:
                await call
            assert (caught.value.strerror, caught.value.filename) == (sandbox.OUTSIDE, path)
    assert _tree(tmp_path) == before


async def test_a_circle_is_an_error_and_stays(root: Path) -> None:
    (root / "circle").symlink_to("circle")
    for before in (None, b""):
        with pytest.raises(OSError, match="circle"):
            await _write(root, "circle", b"B", before)
    assert (root / "circle").is_symlink()


async def test_removing_a_link_leaves_what_it_names(root: Path) -> None:
    (root / "link").symlink_to("folder/a.txt")
    (root / "way").symlink_to("folder")
    (root / "dangling").symlink_to("nothing")
    with pytest.raises(Changed):
        await _remove(root, "link", b"B")
    with pytest.raises(Changed):
        await _remove(root, "dangling", b"")
    await _remove(root, "link", b"A")
    await _remove(root, "way/", None)
    await _remove(root, "dangling", None)
    assert _tree(root) == {"folder": "/", "folder/a.txt": "A"}


async def test_links_are_not_found_by_a_walk(root: Path) -> None:
    (root / "link").symlink_to("folder/a.txt")
    (root / "way").symlink_to("folder")
    (root / "out").symlink_to("../outside")
    box = LocalSandbox(root)
    assert (await box.walk(".")).files == ["folder/a.txt"]
    assert (await box.walk("way")).files == ["folder/a.txt"]
    assert (await box.walk("link")).files == ["folder/a.txt"]


async def test_ignore_files_are_not_followed_outside_nor_waited_for(root: Path) -> None:
    (root / ".gitignore").symlink_to("../outside/secret.txt")
    (root / "secret").write_text("")
    os.mkfifo(root / ".ignore")
    found = await asyncio.wait_for(LocalSandbox(root).walk("."), _BOUND_SECONDS)
    assert found.files == ["folder/a.txt", "secret"]


def _make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        pytest.skip("this user may make no devices")


@pytest.mark.parametrize("make", [os.mkfifo, _make_device])
async def test_pipes_and_devices_are_neither_written_nor_removed_nor_waited_for(
    root: Path, make: Callable[[Path], None]
) -> None:
    make(root / "special")
    (root / "link").symlink_to("special")
    for path in ("special", "link"):
        for call in (
            _write(root, path, b"B", None),
            _write(root, path, b"B", b""),
            _remove(root, path, b""),
            _remove(root, path, None),
            asyncio.wait_for(LocalSandbox(root).walk(path), _BOUND_SECONDS),
        ):
            with pytest.raises(PermissionError, match="neither a file nor a folder"):
                await call
    with pytest.raises(NotADirectoryError):
        await asyncio.wait_for(LocalSandbox(root).names("special"), _BOUND_SECONDS)
    with pytest.raises(NotADirectoryError):
        await _write(root, "special/b", b"B", None)
    assert (await LocalSandbox(root).walk(".")).files == ["folder/a.txt"]
    assert (root / "special").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
async def test_a_replaced_file_keeps_its_mode_and_is_private_until_it_is_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    modes = []

    def note(descriptor: int, data: bytes) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        os.write(descriptor, data)

    monkeypatch.setattr(writing, "write_whole", note)
    (root / "folder" / "a.txt").chmod(mode)
    await _write(root, "folder/a.txt", b"B", b"A")
    assert stat.S_IMODE((root / "folder" / "a.txt").stat().st_mode) == mode
    assert modes == [0o600]


async def test_a_new_file_and_its_folders_get_what_the_umask_leaves(root: Path) -> None:
    old = os.umask(0o027)
    try:
        await _write(root, "new/b.txt", b"B", None)
    finally:
        os.umask(old)
    assert stat.S_IMODE((root / "new" / "b.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o750


async def test_a_read_only_file_is_not_replaced(root: Path) -> None:
    (root / "folder" / "a.txt").chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        await _write(root, "folder/a.txt", b"B", b"A")
    assert _tree(root) == {"folder": "/", "folder/a.txt": "A"}


@pytest.mark.parametrize("call", ["write_below", "remove_below"])
@pytest.mark.parametrize("swapped", ["folder", "folder/a.txt"])
async def test_a_swap_between_the_check_and_the_use_does_not_lead_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, swapped: str
) -> None:
    (tmp_path / "outside" / "a.txt").write_text("A")
    act = getattr(local, call)

    def act_after_a_swap(*args: Any, **options: Any) -> None:
        (root / swapped).rename(tmp_path / "moved")
        (root / swapped).symlink_to(tmp_path / "outside" / swapped.partition("/")[2])
        act(*args, **options)

    monkeypatch.setattr(local, call, act_after_a_swap)
    if (call, swapped) == ("remove_below", "folder/a.txt"):
        # What is removed then is the link, and it lies inside.
        with pytest.raises(OSError, match=r"link|outside"):
            await _remove(root, "folder/a.txt", b"A")
        assert (root / "folder" / "a.txt").is_symlink()
    else:
        with pytest.raises(OSError, match=r"link|outside|not a folder"):
            await (
                _write(root, "folder/a.txt", b"B", b"A")
                if call == "write_below"
                else _remove(root, "folder/a.txt", b"A")
            )
    assert _tree(tmp_path / "outside") == {"a.txt": "A", "secret.txt": "secret"}


async def test_a_folder_swapped_while_a_file_is_written_does_not_lead_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside" / "a.txt").write_text("A")

    def swap(_: int) -> None:
        (root / "folder").rename(root / "moved")
        (root / "folder").symlink_to(tmp_path / "outside")

    monkeypatch.setattr(writing, "sync", swap)
    try:
        await _write(root, "folder/a.txt", b"B", b"A")
    except OSError:
        assert (root / "moved" / "a.txt").read_text() == "A"
    else:
        assert _tree(root / "moved") == {"a.txt": "B"}
    assert _tree(tmp_path / "outside") == {"a.txt": "A", "secret.txt": "secret"}


@pytest.mark.parametrize("before", [b"A", None])
async def test_a_file_that_changes_while_another_is_prepared_wins(
    root: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    name = "a.txt" if before else "new.txt"
    monkeypatch.setattr(writing, "sync", lambda _: (root / "folder" / name).write_text("person"))
    with pytest.raises(Changed):
        await _write(root, f"folder/{name}", b"B", before)
    assert _tree(root) == {"folder": "/", "folder/a.txt": "A", f"folder/{name}": "person"}


@pytest.mark.parametrize("error", [PermissionError(1, "EPERM"), None])
async def test_a_new_file_never_replaces_one_that_comes_at_the_last_moment(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    link = os.link

    def link_late(*args: Any, **options: Any) -> None:
        if error:
            raise error
        (root / "new.txt").write_text("person")
        link(*args, **options)

    monkeypatch.setattr(os, "link", link_late)
    if error:  # a file system without hard links
        await _write(root, "new.txt", b"B", None)
        assert _tree(root) == {"folder": "/", "folder/a.txt": "A", "new.txt": "B"}
        return
    with pytest.raises(Changed):
        await _write(root, "new.txt", b"B", None)
    assert _tree(root) == {"folder": "/", "folder/a.txt": "A", "new.txt": "person"}


async def test_of_writers_of_many_sandboxes_exactly_one_wins(root: Path) -> None:
    for path, before in (("folder/a.txt", b"A"), ("new/b.txt", None)):
        writes = [_write(root, path, b"%d" % number, before) for number in range(8)]
        ended = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ended) == [*["Changed"] * 7, "NoneType"]
        assert (root / path).read_bytes() == b"%d" % ended.index(None)
    assert sorted(_tree(root)) == ["folder", "folder/a.txt", "new", "new/b.txt"]


async def test_a_full_disk_changes_nothing_and_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_whole", fail)
    for path, before in (("folder/a.txt", b"A"), ("new/er/b.txt", None)):
        with pytest.raises(OSError, match="No space left"):
            await _write(root, path, b"B", before)
    assert _tree(root) == {"folder": "/", "folder/a.txt": "A"}


async def test_a_cancelled_write_changes_nothing_and_has_ended(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        reached.set()
        assert go.wait(_BOUND_SECONDS)

    monkeypatch.setattr(writing, "sync", wait)
    task = asyncio.create_task(LocalSandbox(root).write_bytes("folder/a.txt", b"B", before=b"A"))
    assert await asyncio.to_thread(reached.wait, _BOUND_SECONDS)
    task.cancel()
    await asyncio.sleep(0)  # it is told
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _tree(root) == {"folder": "/", "folder/a.txt": "A"}


# Writes a file and dies at the first call of one function of `writing`, or after it.
_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from treadle.sandbox import writing
from treadle.sandbox.local import LocalSandbox

root, name, when, path, before = sys.argv[1:]
act = getattr(writing, name)

def die(*args, **options):
    if when == "after":
        act(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(writing, name, die)
asyncio.run(LocalSandbox(Path(root)).write_bytes(path, b"B", before=before.encode() or None))
"""


@pytest.mark.parametrize("name", ["write_whole", "sync", "_put"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("path", "before"), [("folder/a.txt", b"A"), ("new/b.txt", b"")])
def test_after_a_kill_a_file_is_whole_and_what_is_left_does_no_harm(
    tmp_path: Path, name: str, when: str, path: str, before: bytes
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("A")
    command = [sys.executable, "-c", _KILLED, str(tmp_path), name, when, path, before.decode()]
    assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL
    files = {"folder/a.txt": b"A"}
    if (name, when) == ("_put", "after"):
        files[path] = b"B"
    asyncio.run(_check_unharmed(LocalSandbox(tmp_path), files))


async def _check_unharmed(box: LocalSandbox, files: dict[str, bytes]) -> None:
    """Find exactly these files, and write each anew."""
    for data in (None, b"C"):
        found = (await box.walk(".", ignored=True)).files
        assert {path: await box.read_bytes(path) for path in found} == files
        for path, before in files.items():
            if data:
                await box.write_bytes(path, data, before=before)
                files[path] = data


async def test_no_descriptor_stays_open(root: Path) -> None:
    (root / "link").symlink_to("../outside/secret.txt")
    os.mkfifo(root / "pipe")
    await _write(root, "folder/b.txt", b"B", None)
    before = _open_descriptors()
    for path in ("folder/a.txt", "folder", "no/no", "folder/a.txt/x", "link", "pipe", "new/x"):
        for call in (
            _write(root, path, b"B", b"A"),
            _write(root, path, b"B", None),
            _remove(root, path, b"other"),
            LocalSandbox(root).walk(path),
        ):
            await asyncio.gather(call, return_exceptions=True)
    assert _open_descriptors() == before


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
