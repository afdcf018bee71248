"""A disk that cannot be written: the session goes on and says so, and all is written later."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, last_user_text
from support.person import by_text, on, pair, stored, write_config
from treadle.folders import CACHE_VARIABLE

FAILING = (sys.executable, str(Path(__file__).parent / "drivers" / "failing_disk.py"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what cannot be written away from the person's own folders."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


class Fault:
    """The disk of a daemon, which works until it is broken."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def breaks(self, error: str = "ENOSPC") -> None:
        """Fail every write from now on, after ten bytes of it."""
        self._path.write_text(error)

    def is_mended(self) -> None:
        """Work again."""
        self._path.unlink()


@asynccontextmanager
async def on_a_failing_disk(tmp_path: Path) -> AsyncIterator[tuple[Daemon, ModelServer, Fault]]:
    """Run a daemon whose disk a test breaks and mends."""
    fault = Fault(tmp_path / "fault")
    async with (
        ModelServer(by_text({"Long": Answer("word " * 400)})) as server,
        daemon(env={**on(server), "FAULT": str(tmp_path / "fault")}, program=FAILING) as client,
    ):
        yield client, server, fault


def _storage(client: Daemon) -> list[str]:
    """What was said of the storage, each change once."""
    said = [one["storage"] for one in client.of("session/state")]
    return [one for index, one in enumerate(said) if index == 0 or one != said[index - 1]]


def _is_storage(client: Daemon, storage: str) -> bool:
    states = client.of("session/state")
    return bool(states) and states[-1]["storage"] == storage


def _kept_in(tmp_path: Path) -> list[Path]:
    """What lies elsewhere because its threads could not be written."""
    return sorted((tmp_path / "cache" / "unsaved").iterdir())


async def _texts(client: Daemon, instance: str) -> list[str]:
    read = await client.request("session/read", pair(instance))
    return [one["content"] for one in read["messages"]]


async def test_a_full_disk_ends_no_turn_and_all_is_written_when_there_is_room(
    tmp_path: Path,
) -> None:
    async with on_a_failing_disk(tmp_path) as (client, server, fault):
        await client.request("session/prompt", pair("f", prompt="Hello"))
        path = stored("assistant", "f")
        whole = path.read_bytes()
        fault.breaks()
        answer = await client.request("session/prompt", pair("f", prompt="Kept?"))
        told = [event["method"] for event in client.events]
        degraded = [one for one in client.of("session/state") if one["storage"] == "degraded"]
        assert path.read_bytes() == whole
        assert await _texts(client, "f") == ["Hello", "Fine.", "Kept?", "Fine."]
        fault.is_mended()
        # Nobody says anything: it is written all the same.
        await client.until(lambda: _is_storage(client, "ok"))
        written = path.read_bytes()
        await client.request("session/prompt", pair("f", prompt="And now?"))
        await client.request("session/close", pair("f"))
        texts = await _texts(client, "f")
        report = (await client.request("session/resume", pair("f")))["report"]

    assert answer["text"] == "Fine."
    assert degraded[0]["state"] == "idle"  # told before the turn had begun, not at its end
    assert told.index("session/state") < told.index("session/delta")
    assert written.startswith(whole)
    assert b"Kept?" in written
    assert _storage(client) == ["ok", "degraded", "ok"]
    assert texts == ["Hello", "Fine.", "Kept?", "Fine.", "And now?", "Fine."]
    assert report == {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}
    assert last_user_text(server.requests[-1]) == "And now?"


async def test_a_disk_that_fills_up_in_the_middle_of_a_turn_is_told_at_once(
    tmp_path: Path,
) -> None:
    resource = pytest.importorskip("resource", reason="limits of processes are a thing of Unix")
    if not hasattr(resource, "prlimit"):
        pytest.skip("only Linux limits another process")
    async with on_a_failing_disk(tmp_path) as (client, _, _fault):
        await client.request("session/prompt", pair("g", prompt="Hello"))
        path = stored("assistant", "g")
        _, hard = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
        limit = path.stat().st_size + 1000
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (limit, hard))
        answer = await client.request("session/prompt", pair("g", prompt="Long"))
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        states = [one["storage"] for one in client.of("session/state") if one["state"] == "running"]
        await client.request("session/prompt", pair("g", prompt="And now?"))
        await client.request("session/close", pair("g"))
        texts = await _texts(client, "g")

    assert answer["text"] == "word " * 400
    assert states == ["ok", "ok", "degraded"]
    assert texts == ["Hello", "Fine.", "Long", "word " * 400, "And now?", "Fine."]
    assert _storage(client) == ["ok", "degraded", "ok"]


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS", "EACCES", "EIO"])
async def test_a_thread_that_cannot_be_made_is_held_in_memory_until_it_can(
    tmp_path: Path, error: str
) -> None:
    async with on_a_failing_disk(tmp_path) as (client, _, fault):
        fault.breaks(error)
        resumed = await client.request("session/resume", pair("h"))
        answer = await client.request("session/prompt", pair("h", prompt="Hello"))
        assert _storage(client) == ["degraded"]
        fault.is_mended()
        await client.until(lambda: _is_storage(client, "ok"))
        await client.request("session/close", pair("h"))
        assert await _texts(client, "h") == ["Hello", "Fine."]

    assert (resumed["created"], answer["turn"]) == (True, 1)


async def test_a_close_that_cannot_write_says_where_the_lines_are_and_they_come_back(
    tmp_path: Path,
) -> None:
    async with on_a_failing_disk(tmp_path) as (client, _, fault):
        await client.request("session/prompt", pair("c", prompt="Hello"))
        fault.breaks("ONLY_THREADS")
        await client.request("session/prompt", pair("c", prompt="Kept?"))
        with pytest.raises(RpcError) as refused:
            await client.request("session/close", pair("c"))
        place = Path(refused.value.data["path"])
        closed = client.of("session/state")[-1]
        # What lies elsewhere is missing in the thread, so nobody goes on without it.
        with pytest.raises(RpcError) as missing:
            await client.request("session/resume", pair("c"))
        short = await client.request("session/read", pair("c"))
        fault.is_mended()
        await client.request("session/prompt", pair("c", prompt="And now?"))
        texts = await _texts(client, "c")

    assert (refused.value.reason, missing.value.reason) == ("storage_degraded",) * 2
    assert (closed["state"], closed["storage"]) == ("closed", "degraded")
    assert [one["content"] for one in short["messages"]] == ["Hello", "Fine."]
    assert short["elsewhere"] == [{"path": str(place), "lines": 4}]
    assert place.parent == tmp_path / "cache" / "unsaved"
    assert texts == ["Hello", "Fine.", "Kept?", "Fine.", "And now?", "Fine."]
    assert _kept_in(tmp_path) == []


async def test_a_daemon_that_ends_on_a_broken_disk_loses_nothing_and_logs_where_it_is(
    tmp_path: Path,
) -> None:
    async with on_a_failing_disk(tmp_path) as (client, server, fault):
        fault.breaks("ONLY_THREADS")
        for instance in ("a", "b"):
            await client.request("session/prompt", pair(instance, prompt=f"I am {instance}"))
        await client.end()
        kept = _kept_in(tmp_path)
        log = "".join(path.read_text() for path in (tmp_path / "logs").rglob("*.log"))
        assert all(str(path) in log for path in kept)
        assert [path.stat().st_mode & 0o777 for path in kept] == [0o600, 0o600]
        fault.is_mended()
        async with daemon(env=on(server)) as heir:
            for instance in ("a", "b"):
                await heir.request("session/resume", pair(instance))
                assert await _texts(heir, instance) == [f"I am {instance}", "Fine."]
    assert _kept_in(tmp_path) == []


async def test_a_session_that_waits_to_be_written_is_not_let_go(tmp_path: Path) -> None:
    write_config("[sessions]\nidle_seconds = 0.05\n")
    async with on_a_failing_disk(tmp_path) as (client, _, fault):
        fault.breaks()
        await client.request("session/prompt", pair("e", prompt="Hello"))
        listed = (await client.request("session/list"))["sessions"]
        assert [one["heldBy"] for one in listed] == [client.process.pid]
        fault.is_mended()
        await client.until(lambda: _is_storage(client, "ok"))
        assert (await client.request("session/prompt", pair("e", prompt="On")))["turn"] == 2


async def test_a_data_folder_that_vanishes_for_a_turn_loses_nothing(tmp_path: Path) -> None:
    async with on_a_failing_disk(tmp_path) as (client, _, _fault):
        data = stored("assistant", "v").parents[2]
        await client.request("session/prompt", pair("v", prompt="Hello"))
        data.rename(tmp_path / "away")
        await client.request("session/prompt", pair("v", prompt="Away"))
        (tmp_path / "away").rename(data)
        answer = await client.request("session/prompt", pair("v", prompt="Back"))
        await client.request("session/close", pair("v"))
        assert await _texts(client, "v") == ["Hello", "Fine.", "Away", "Fine.", "Back", "Fine."]

    assert answer["turn"] == 3
