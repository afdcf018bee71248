"""The death of another process is noticed, however the system tells of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.server.wire import parent
from treadle.server.wire.parent import MAX_PID, watch_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="counts POSIX descriptors")

# Far above what a death needs to be noticed.
NOTICE_SECONDS = 10.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its stdin does."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(params=["descriptor", "polling"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "POLL_SECONDS", 0.01)
    if request.param == "polling":
        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)


def refuse(pid: int) -> int:
    raise OSError("no such call")


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}


@pytest.mark.usefixtures("_way")
async def test_a_death_is_told_once_and_leaves_nothing_open(
    child: subprocess.Popen[bytes],
) -> None:
    before = open_descriptors()
    died = asyncio.Event()
    deaths: list[int] = []

    def on_death() -> None:
        deaths.append(1)
        died.set()

    stop = watch_process(child.pid, on_death)
    await asyncio.sleep(0)
    assert deaths == []
    child.kill()
    child.wait()
    await asyncio.wait_for(died.wait(), NOTICE_SECONDS)
    stop()
    stop()
    assert deaths == [1]
    assert open_descriptors() == before


@pytest.mark.usefixtures("_way")
async def test_nothing_is_told_after_a_stop(child: subprocess.Popen[bytes]) -> None:
    before = open_descriptors()
    deaths: list[int] = []
    watch_process(child.pid, lambda: deaths.append(1))()
    seen = asyncio.Event()
    child.kill()
    child.wait()
    stop = watch_process(child.pid, seen.set)
    await asyncio.wait_for(seen.wait(), NOTICE_SECONDS)
    stop()
    assert deaths == []
    assert open_descriptors() == before


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("pid", [2**31 + 5, MAX_PID, 2**70])
async def test_a_process_that_cannot_exist_is_dead(pid: int) -> None:
    died = asyncio.Event()
    watch_process(pid, died.set)
    assert not died.is_set()
    await asyncio.wait_for(died.wait(), NOTICE_SECONDS)


@pytest.mark.parametrize("pid", [0, -1, -(2**70)])
async def test_a_number_that_names_no_process_is_not_watched(pid: int) -> None:
    deaths: list[int] = []
    stop = watch_process(pid, lambda: deaths.append(1))
    await asyncio.sleep(0)
    stop()
    assert deaths == []


@pytest.mark.usefixtures("_way")
async def test_our_own_parent_is_watched_as_well() -> None:
    deaths: list[int] = []
    stop = watch_process(os.getppid(), lambda: deaths.append(1))
    await asyncio.sleep(0)
    stop()
    assert deaths == []


async def test_an_orphan_without_descriptors_learns_of_it_from_its_parents_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parent, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    died = asyncio.Event()
    parent_pid = os.getppid()
    stop = watch_process(parent_pid, died.set)
    await asyncio.sleep(0)
    assert not died.is_set()
    # Whoever adopts orphans; not 1, which may be the parent of this very run.
    monkeypatch.setattr(os, "getppid", lambda: parent_pid + 1)
    await asyncio.wait_for(died.wait(), NOTICE_SECONDS)
    stop()
