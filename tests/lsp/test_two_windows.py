"""Two windows of a real editor and a script on one session of the shared daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.approving import AGENT, careful_agent, here, write
from support.peers import installed_neovim, newer_neovim, report_of
from support.shared import CONNECT, connected, end_daemon
from support.waiting import PATIENCE_SECONDS
from treadle.rendezvous.environment import NO_DAEMON_VARIABLE

WINDOW = Path(__file__).parent / "neovim" / "window.lua"


@pytest.fixture(autouse=True)
def _ended(monkeypatch: pytest.MonkeyPatch, _own_folders: None) -> Iterator[None]:
    monkeypatch.delenv(NO_DAEMON_VARIABLE)
    yield
    end_daemon()


@pytest.mark.parametrize("neovim", [installed_neovim, newer_neovim])
async def test_two_windows_and_a_script_see_the_same_and_one_answer_closes_both(
    neovim: Callable[[], str], tmp_path: Path
) -> None:
    program = neovim()
    work = careful_agent(tmp_path, [write("a.txt")])

    async def window(name: str, **answers: str) -> Any:
        task = {"command": CONNECT, "folder": str(work), "session": here(), **answers}
        env = {"TREADLE_TASK": json.dumps(task), "XDG_STATE_HOME": str(tmp_path / name)}
        return await report_of(program, "--clean", "--headless", "-n", "-S", str(WINDOW), env=env)

    async with connected() as script:
        windows = asyncio.gather(window("one", outcome="allow_once"), window("two"))
        await script.request("session/attach", here())
        async with asyncio.timeout(PATIENCE_SECONDS):
            # Both watch before anything is said.
            while (await script.request("daemon/status"))["clients"] < 3 and not windows.done():
                pass
        await until_watched(script)
        result = await script.request("session/prompt", here(prompt="Go"))
        one, two = await windows

    assert (result["text"], (work / "a.txt").exists()) == ("Done.", True)
    told = [(event["method"], event["params"]) for event in one["heard"]]
    assert told == [(event["method"], event["params"]) for event in two["heard"]]
    numbers = [params["seq"] for method, params in told if method != "session/said"]
    assert numbers == list(range(one["attached"]["seq"] + 1, numbers[-1] + 1))
    assert ("session/said", "Go") in [(method, params.get("text")) for method, params in told]
    # Each was asked the same; what one answered has closed the other's dialog.
    assert len(one["asked"]) == 1 and one["asked"] == two["asked"]
    assert (one["closed"], two["closed"]) == ([], ["allow_once"])
    assert (one["exit"], two["exit"]) == (0, 0)


async def until_watched(script: Any) -> None:
    """Wait until all three watch the session: a prompt that nobody watches proves nothing."""
    probe = {"agent": AGENT, "instance": "test"}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await script.request("session/attach", probe))["watchers"] < 3:
            pass
