"""Finding, starting and replacing the shared daemon, as every client of it does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemon import RpcError, daemon
from support.shared import (
    CONNECT,
    connected,
    daemon_pid,
    is_there,
    kill_daemon,
    meeting,
    other_version,
)
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.errors import NoDaemon, UnsafePlace
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE
from treadle.rendezvous.address import RUNTIME_VARIABLE, TRANSPORT_VARIABLE, address_of
from treadle.rendezvous.environment import differing, digests
from treadle.rendezvous.holding import hold
from treadle.rendezvous.reaching import reach
from treadle.rendezvous.told import read_told, write_told

# As many editors as nobody has, all started by one login.
MANY = 50


async def test_however_many_connect_at_once_there_is_one_daemon_and_all_are_answered() -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = await asyncio.gather(
            *(
                stack.enter_async_context(connected(initialize=False, stderr=subprocess.PIPE))
                for _ in range(MANY)
            )
        )
        hellos = await asyncio.gather(*(client.initialize() for client in clients))
        pids = {hello["capabilities"]["experimental"]["treadle"]["pid"] for hello in hellos}
        assert pids == {daemon_pid()}
        told = await clients[0].request("daemon/status")
        assert (told["pid"], told["clients"]) == (daemon_pid(), MANY)


async def test_the_daemon_outlives_its_clients_and_is_found_again() -> None:
    async with connected() as first:
        pid = (await first.request("daemon/status"))["pid"]
        assert await first.end() == 0
    async with connected() as second:
        assert (await second.request("daemon/status"))["pid"] == pid


async def test_what_a_killed_daemon_left_keeps_nobody_from_the_next() -> None:
    async with connected() as first:
        before = kill_daemon()
        assert is_there(meeting().socket)
        with pytest.raises(EOFError):
            await first.request("daemon/status")
    async with connected() as second:
        assert (await second.request("daemon/status"))["pid"] != before


async def test_nobody_else_can_come_near_it() -> None:
    async with connected():
        assert modes_at(meeting().folder) == (0o700, {0o600})


def modes_at(folder: str) -> tuple[int, set[int]]:
    """Return the modes of a folder and of what lies in it."""
    inside = {stat.S_IMODE(path.stat().st_mode) for path in Path(folder).iterdir()}
    return stat.S_IMODE(Path(folder).stat().st_mode), inside


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_meeting_place_that_others_can_enter_is_refused(mode: int) -> None:
    place = Path(os.environ[RUNTIME_VARIABLE])
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(
        UnsafePlace, match=f"others may enter it .its mode is {mode:o}.*{RUNTIME_VARIABLE}"
    ):
        address_of("/data")
    place.chmod(0o700)
    assert address_of("/data").folder == str(place)


def test_a_meeting_place_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    place = Path(os.environ[RUNTIME_VARIABLE])
    place.symlink_to(tmp_path)
    with pytest.raises(UnsafePlace, match="a link"):
        address_of("/data")
    place.unlink()
    place.touch()
    with pytest.raises(UnsafePlace, match="no folder"):
        address_of("/data")
    place.unlink()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives a folder away")
def test_a_meeting_place_of_somebody_else_is_refused() -> None:
    place = Path(os.environ[RUNTIME_VARIABLE])
    place.mkdir(mode=0o700)
    os.chown(place, 12345, -1)
    with pytest.raises(UnsafePlace, match="it belongs to user 12345"):
        address_of("/data")
    os.chown(place, os.geteuid(), -1)


def test_a_path_too_long_for_a_socket_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.setenv(RUNTIME_VARIABLE, str(tmp_path / ("x" * 120)))
        with pytest.raises(UnsafePlace, match="too long for a socket; mend that, or name a short"):
            address_of("/data")
        there.setenv(TRANSPORT_VARIABLE, "tcp")
        assert address_of("/data").told


def test_two_names_of_one_data_folder_are_one_address(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert address_of(f"{tmp_path}/real").name == address_of(f"{tmp_path}/link/").name
    assert address_of(f"{tmp_path}/real").name != address_of(f"{tmp_path}/other").name


@pytest.mark.parametrize("left", [b"", b"pid=1", b"\xff\xfe", b"pid=x\nversion=1\n", b"\0" * 4096])
def test_what_cannot_be_read_tells_nothing(left: bytes) -> None:
    address = meeting()
    Path(address.told).write_bytes(left)
    assert read_told(address) is None
    write_told(address, version="1", environment={"A": "b=c"}, started_at=1.5)
    told = read_told(address)
    assert told is not None
    assert (told.pid, told.version, told.environment, told.started_at, told.port) == (
        os.getpid(),
        "1",
        {"A": "b=c"},
        1.5,
        0,
    )
    Path(address.told).unlink()


def test_a_lock_is_held_once_and_by_no_child() -> None:
    path = meeting().lock
    held = hold(path)
    assert held is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert hold(path) is None
    held.release()
    again = hold(path)
    assert again is not None
    again.release()
    child.communicate(b"\n", PATIENCE_SECONDS)


def test_nobody_is_started_where_that_is_not_wanted() -> None:
    with pytest.raises(NoDaemon):
        reach(os.environ[DATA_VARIABLE], may_start=False)
    assert not Path(meeting().socket).exists()


def test_only_what_changes_an_answer_makes_another_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TREADLE_MODEL", "m")
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-of-some-length")
    address = meeting()
    write_told(address, version="1", environment=digests(), started_at=0)
    assert b"a-secret" not in Path(address.told).read_bytes()
    told = read_told(address)
    assert told is not None
    monkeypatch.setenv("TREADLE_LOG_LEVEL", "debug")
    monkeypatch.setenv("TREADLE_NO_DAEMON", "1")
    monkeypatch.setenv("EDITOR", "vi")
    assert differing(told) == []
    monkeypatch.setenv("OPENAI_API_KEY", "another-secret-of-some")
    monkeypatch.delenv("TREADLE_MODEL")
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "elsewhere"))
    assert differing(told) == ["OPENAI_API_KEY", "TREADLE_MODEL", "the configuration folder"]
    Path(address.told).unlink()


async def test_a_daemon_with_another_environment_is_replaced_where_nobody_uses_it() -> None:
    async with connected() as first:
        old = daemon_pid()
        # The first one is still there, so it is used as it is, and that is said.
        async with connected(env={"TREADLE_MODEL": "x"}, stderr=asyncio.subprocess.PIPE) as second:
            assert (await second.request("daemon/status"))["pid"] == old
            assert second.process.stderr is not None
            assert b"(TREADLE_MODEL)" in await second.process.stderr.readline()
            await second.end()
        await first.end()
    async with connected(env={"TREADLE_MODEL": "x"}) as third:
        assert (await third.request("daemon/status"))["pid"] != old


async def test_a_daemon_of_another_version_is_replaced_or_named() -> None:
    with other_version() as other:
        await until_seen(lambda: is_there(meeting().socket))
        with reach_it() as busy:
            # It cannot be idle while somebody else is connected.
            refused = run(*CONNECT)
            assert refused.returncode == 1
            assert f"(pid {other.pid}) is Treadle 0.0.1".encode() in refused.stderr
            assert b"treadle daemon stop" in refused.stderr
            busy.close()
        async with connected() as client:
            assert (await client.request("daemon/status"))["version"] != "0.0.1"
        assert other.wait(PATIENCE_SECONDS) == 0


def run(*command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command that is expected to end by itself."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS
    )


def reach_it() -> socket.socket:
    """Connect to whatever daemon there is."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(meeting().socket)
    return connection


async def test_a_second_daemon_of_a_data_folder_says_who_is_there() -> None:
    async with connected():
        second = run(sys.executable, "-m", "treadle", "serve", "--socket")
        assert second.returncode == 1
        assert f"another daemon (pid {daemon_pid()})".encode() in second.stderr


def test_a_daemon_that_cannot_begin_is_told_with_its_own_words() -> None:
    Path(meeting().socket).mkdir()
    failed = run(*CONNECT)
    assert failed.returncode == 1
    assert b"the shared daemon ended with code 1" in failed.stderr
    assert b"It printed: treadle: " in failed.stderr
    Path(meeting().socket).rmdir()


async def test_over_loopback_nobody_gets_in_without_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TRANSPORT_VARIABLE, "tcp")
    async with connected() as client:
        assert (await client.request("daemon/status"))["transport"] == "tcp"
        told = read_told(meeting())
        assert told is not None
        for first in (
            b"Content-Length: 2\r\n\r\n{}",
            b"wrong\n",
            b"x" * 5000,
            told.token[:-1].encode(),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", told.port)
            writer.write(first)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        assert (await client.request("daemon/status"))["clients"] == 1


async def test_a_sidecar_is_not_to_be_stopped_as_a_shared_daemon_is() -> None:
    async with daemon() as client:
        told = await client.request("daemon/status")
        assert (told["transport"], told["clients"]) == ("stdio", 1)
        with pytest.raises(RpcError) as refused:
            await client.request("daemon/stop")
        assert refused.value.reason == "not_shared"
