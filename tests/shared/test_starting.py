"""What is handed to a shared daemon that is started, and who starts or replaces one of many."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path

import platformdirs
import pytest

from support.person import write_agent
from support.process import linux_only
from support.shared import connected, daemon_pid, is_there, meeting, other_version
from support.waiting import until_seen
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.places import platform_folder
from treadle.rendezvous.address import RUNTIME_VARIABLE
from treadle.rendezvous.environment import digests
from treadle.rendezvous.holding import hold, is_held_by
from treadle.rendezvous.printed import MOST_BYTES, bound_printed, end_of_printed, open_printed
from treadle.rendezvous.reaching import reach
from treadle.rendezvous.starting import start
from treadle.rendezvous.told import remove_told, write_told
from treadle.version import __version__

# Windows of an editor that was updated while an old daemon ran.
MANY = 20


async def test_however_many_find_an_old_daemon_it_is_replaced_once_and_nobody_is_refused() -> None:
    with other_version() as other:
        await until_seen(lambda: is_there(meeting().socket))
        async with contextlib.AsyncExitStack() as stack:
            clients = await asyncio.gather(
                *(stack.enter_async_context(connected()) for _ in range(MANY))
            )
            told = [await client.request("daemon/status") for client in clients]
            assert {one["pid"] for one in told} == {daemon_pid()}
            assert {one["version"] for one in told} == {__version__}
        assert other.returncode == 0 or other.wait() == 0


async def test_folders_that_are_relative_to_the_client_are_the_same_for_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent("mine")
    place = relative(os.environ[RUNTIME_VARIABLE], tmp_path)
    config = Path(os.environ[CONFIG_VARIABLE]).name
    monkeypatch.delenv(CONFIG_VARIABLE)
    monkeypatch.chdir(tmp_path)
    options = ("--data-dir", "data", "--config-dir", config, "--log-level", "debug")
    env = {RUNTIME_VARIABLE: place, LOG_VARIABLE: "own-logs"}
    async with connected(*options, env=env) as client:
        assert (await client.request("daemon/status"))["dataDir"] == str(tmp_path / "data")
        assert "mine" in [one["name"] for one in (await client.request("agent/list"))["agents"]]
        await until_seen(lambda: any((tmp_path / "own-logs").glob("*")))


def relative(path: str, folder: Path) -> str:
    """Return how a path is called from a folder."""
    return os.path.relpath(path, folder)


async def test_whoever_was_slower_waits_for_the_daemon_that_was_quicker() -> None:
    address = meeting()
    held = hold(address.lock)
    assert held is not None
    write_told(address, version=__version__, environment=digests(), started_at=0)
    found: list[socket.socket] = []
    starting = threading.Thread(
        target=lambda: found.append(start(address, os.environ[DATA_VARIABLE], None))
    )
    starting.start()
    # The one that was started has found the other at the door, and is gone.
    await until_seen(lambda: "another daemon" in end_of_printed(address.stderr, 1000))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address.socket)
        listener.listen()
        await until_seen(lambda: bool(found))
        found[0].close()
    starting.join()
    remove_told(address)
    held.release()


async def test_a_daemon_that_lives_with_another_environment_is_asked_once_and_then_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected() as first:
        monkeypatch.setenv("TREADLE_MODEL", "another")
        reached = await asyncio.to_thread(reach, os.environ[DATA_VARIABLE])
        with reached.connected:
            assert reached.differing == ["TREADLE_MODEL"]
        # A command that an agent has started is no other client.
        monkeypatch.delenv("TREADLE_MODEL")
        monkeypatch.setenv("TREADLE_JOB", "a-mark")
        again = await asyncio.to_thread(reach, os.environ[DATA_VARIABLE])
        again.connected.close()
        assert again.differing == []
        assert (await first.request("daemon/status"))["pid"] == daemon_pid()


def test_what_a_daemon_prints_has_a_bound(tmp_path: Path) -> None:
    path = str(tmp_path / "printed")
    descriptor = open_printed(path)
    os.write(descriptor, b"x" * (MOST_BYTES + 1))
    bound_printed(path)
    assert Path(path).stat().st_size == 0
    os.write(descriptor, b"after")
    os.close(descriptor)
    os.close(open_printed(path))
    assert end_of_printed(path, 3) == "ter"
    Path(path).write_bytes(b"y" * (MOST_BYTES + 1))
    os.close(open_printed(path))
    assert end_of_printed(path, 3) == ""


def test_what_a_daemon_prints_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear")
    (tmp_path / "printed").symlink_to("mine")
    with pytest.raises(OSError):
        open_printed(str(tmp_path / "printed"))
    assert (tmp_path / "mine").read_text() == "dear"


@linux_only
def test_a_lock_says_whose_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert not is_held_by(path, os.getpid())
    held = hold(path)
    assert held is not None
    assert (is_held_by(path, os.getpid()), is_held_by(path, os.getppid())) == (True, False)
    held.release()


@pytest.mark.parametrize("kind", ["data", "config", "cache", "log"])
@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/home/mac"},
        {"HOME": "/home/mac", "all": "/elsewhere"},
        {"HOME": "/home/mac", "all": "relative"},
        {"HOME": "/home/mac", "all": "/with/./dots/"},
        {"HOME": "/home/mac", "all": "  /blanks "},
        {"HOME": "/home/mac", "all": ""},
        {"HOME": ""},
        {"HOME": "/"},
        {},
    ],
)
def test_folders_are_where_platformdirs_has_them(
    kind: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(environ)
    of_all = given.pop("all", None)
    for home in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(home, raising=False)
        if of_all is not None:
            monkeypatch.setenv(home, of_all)
    monkeypatch.delenv("HOME", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    expected = getattr(platformdirs.PlatformDirs("treadle", appauthor=False), f"user_{kind}_dir")
    assert platform_folder(kind) == expected
