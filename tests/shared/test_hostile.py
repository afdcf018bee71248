"""What an attacker of the shared daemon has found: each kind, and that it is over."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.daemon import RpcError
from support.scripts import scripted_agent
from support.shared import connected, kill_daemon, meeting
from support.socket_client import SocketClient, socket_clients
from support.waiting import PATIENCE_SECONDS
from treadle.folders import DATA_VARIABLE
from treadle.rendezvous.address import TRANSPORT_VARIABLE
from treadle.rendezvous.calling import call
from treadle.rendezvous.told import read_told
from treadle.server.shared import MAX_CLIENTS

TREADLE = (sys.executable, "-m", "treadle")
PROMPT = (*TREADLE, "prompt", "-a", "talker", "-i", "one", "Hi")


def run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, **env},
    )


def test_a_link_that_leads_elsewhere_later_leads_no_word_astray(tmp_path: Path) -> None:
    scripted_agent("talker", {"text": "Hello."})
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    link = tmp_path / "data"
    link.symlink_to("one")
    assert run(*PROMPT, **{DATA_VARIABLE: str(link)}).stdout == "Hello.\n"
    link.unlink()
    link.symlink_to("other")
    said = run(*PROMPT[:-3], "-i", "two", "Hi", **{DATA_VARIABLE: str(tmp_path / "one")})
    assert said.stdout == "Hello.\n"
    assert (tmp_path / "one" / "threads" / "talker" / "two.jsonl").exists()
    assert not (tmp_path / "other" / "threads").exists()
    run(*TREADLE, "daemon", "stop", **{DATA_VARIABLE: str(tmp_path / "one")})


async def test_however_often_it_is_asked_to_stop_softly_whoever_came_before_is_served() -> None:
    async with connected() as first:
        await first.request("daemon/status")
        await first.end()
    async with socket_clients(1) as (asking,):
        stops = [asking.ask("daemon/stop", {"ifIdle": True}) for _ in range(3)]
        await asyncio.gather(*stops)
        # It had found the socket before that was hidden.
        hidden = Path(f"{meeting().socket}.closing")
        path = str(hidden) if is_there(hidden) else meeting().socket
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        late = SocketClient(reader, writer)
        await late.request("initialize", {"capabilities": {}})
        await asking.close()
        assert (await late.request("daemon/status"))["clients"] >= 1
        await late.close()


def is_there(path: Path) -> bool:
    return path.exists()


async def test_a_daemon_without_room_says_so_and_can_still_be_asked_and_ended() -> None:
    async with connected(), socket_clients(1) as (early,):
        others = [silent() for _ in range(MAX_CLIENTS - 2)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await early.request("daemon/status"))["clients"] < MAX_CLIENTS:
                pass
        await is_full()
        for other in others:
            other.close()


def silent() -> socket.socket:
    """Connect, and say nothing."""
    one = socket.socket(socket.AF_UNIX)
    one.connect(meeting().socket)
    return one


async def is_full() -> None:
    async with socket_clients(1) as (late,):
        with pytest.raises(RpcError) as refused:
            await late.request("session/list")
        assert refused.value.reason == "overloaded"
        assert refused.value.data["retryAfterSeconds"] > 0
        assert (await late.request("daemon/status"))["clients"] == MAX_CLIENTS + 1
        scripted_agent("talker", {"text": "Hello."})
        told = await asyncio.to_thread(run, *PROMPT)
        assert (told.returncode, "[overloaded]" in told.stderr) == (75, True)
        stopped = await asyncio.to_thread(run, *TREADLE, "daemon", "stop")
        assert stopped.stdout == "the shared daemon has ended\n"


async def test_a_port_that_a_killed_daemon_had_is_believed_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TRANSPORT_VARIABLE, "tcp")
    async with connected():
        told = read_told(meeting())
        assert told is not None
        kill_daemon()
    scripted_agent("talker", {"text": "Hello."})
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        believe(stranger.getsockname()[1], told.port)
        assert call(meeting()) is None
        assert (await asyncio.to_thread(run, *PROMPT)).stdout == "Hello.\n"


def believe(port: int, before: int) -> None:
    """Let what the killed daemon told lead to a port that is somebody else's by now."""
    left = Path(meeting().told)
    left.write_text(left.read_text().replace(f"port={before}", f"port={port}"))


async def test_a_daemon_that_listens_otherwise_than_its_client_would_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted_agent("talker", {"text": "Hello."})
    with monkeypatch.context() as there:
        there.setenv(TRANSPORT_VARIABLE, "tcp")
        await asyncio.to_thread(run, *PROMPT)
    assert (await asyncio.to_thread(run, *PROMPT)).stdout == "Hello.\n"
    assert (await asyncio.to_thread(run, *TREADLE, "daemon", "status")).returncode == 0


def test_a_daemon_that_nobody_can_find_is_named_soon_with_what_ends_it() -> None:
    scripted_agent("talker", {"text": "Hello."})
    assert run(*PROMPT).stdout == "Hello.\n"
    Path(meeting().socket).unlink()
    began = time.monotonic()
    lost = run(*PROMPT)
    assert (lost.returncode, "`treadle daemon stop --force` ends it" in lost.stderr) == (69, True)
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
    assert run(*TREADLE, "daemon", "stop", "--force").returncode == 0
    assert run(*PROMPT).stdout == "Hello.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="names of variables are bytes there")
def test_a_variable_s_name_may_be_any_bytes() -> None:
    scripted_agent("talker", {"text": "Hello."})
    odd = os.fsdecode(b"TREADLE_\xff")
    assert run(*PROMPT, **{odd: "1"}).stdout == "Hello.\n"
    assert run(*PROMPT, **{odd: "1"}).stdout == "Hello.\n"


@pytest.mark.parametrize("part", ["lock", "starting", "stderr"])
def test_what_lies_in_the_way_is_told_with_what_helps(part: str) -> None:
    scripted_agent("talker", {"text": "Hello."})
    path = Path(getattr(meeting(), part))
    path.mkdir()
    refused = run(*PROMPT)
    assert (refused.returncode, "--no-daemon" in refused.stderr) == (69, True)
    path.rmdir()
