"""Sessions with a server come and go for long, and the daemon is as it was."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from support.daemon import Daemon, daemon, serving_after
from support.mcp.home import open_home
from support.person import pair
from support.process import children_of, linux_only, resident_bytes
from support.scripts import calls, says, scripted_agent
from support.waiting import PATIENCE_SECONDS, until_seen

pytestmark = linux_only

# Says what was measured, with `--log-cli-level=INFO`.
logger = logging.getLogger(__name__)

# How many rounds are measured; more by hand.
ROUNDS_VARIABLE = "TREADLE_MCP_ROUNDS"
ROUNDS = 24
# Until then whatever is loaded or made once is there.
WARM_UP_ROUNDS = 12
# Worker threads are made while none is free, up to 32, and kept; one more or less says nothing.
THREADS_MORE = 2
# A heap is never quite the same: pages half used, and what an allocator keeps.
MEMORY_BYTES_MORE = 8 << 20

# Says how many tasks there are, when it is asked by a signal.
COUNTS_TASKS = """
import asyncio, os, pathlib, signal
def count(*_):
    path = pathlib.Path({path!r})
    path.with_suffix(".new").write_text(str(len(asyncio.all_tasks())))
    path.with_suffix(".new").replace(path)
signal.signal(signal.SIGUSR1, count)
"""


@dataclass(frozen=True)
class Held:
    """What a daemon holds while it has nothing to do."""

    descriptors: int
    tasks: int
    children: int


class Gauge:
    """Measures a daemon; `counted` is where it says how many tasks it has."""

    def __init__(self, client: Daemon, counted: Path) -> None:
        self.pid = client.process.pid
        self.counted = counted

    async def settles_at(self, before: Held) -> None:
        """Wait, within a bound, until it holds what it held: the last of an end takes a moment."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (held := await self.held()) != before:
                logger.info("not yet: %s", held)

    async def held(self) -> Held:
        self.counted.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        await until_seen(self.counted.exists)
        return Held(self._entries("fd"), int(self.counted.read_text()), len(children_of(self.pid)))

    @property
    def threads(self) -> int:
        return self._entries("task")

    @property
    def memory_bytes(self) -> int:
        return resident_bytes(self.pid)

    def _entries(self, folder: str) -> int:
        return len(list(Path(f"/proc/{self.pid}/{folder}").iterdir()))


async def test_rounds_of_open_prompt_close_leave_nothing(tmp_path: Path) -> None:
    rounds = int(os.environ.get(ROUNDS_VARIABLE, ROUNDS))
    counted = tmp_path / "tasks"
    program = serving_after(tmp_path, COUNTS_TASKS.format(path=str(counted)))
    async with open_home() as home, daemon(program=program) as client:
        command = home.command("server")
        declared = {"server": {"command": command[0], "args": command[1:]}}
        scripted_agent(
            "round",
            calls(("server__echo", {"text": "hello"})),
            says("Fine."),
            permissions="auto",
            mcp_servers=json.dumps(declared),
        )

        async def play(number: int) -> None:
            address = pair(f"round-{number}", "round")
            await client.request("session/resume", address)
            async with asyncio.timeout(PATIENCE_SECONDS):
                # The first turn of all may be over before the server has started.
                while not home.heard("server", "tools/call echo"):
                    outcome = await client.request("session/prompt", {**address, "prompt": "Go."})
                    assert outcome["text"] == "Fine."
            closed = await client.request("session/close", address)
            (released,) = closed["released"]["servers"]
            (server,) = home.lines
            assert (released["pid"], released["exit"]) == (server.pid, 0)
            await home.until(lambda: not home.alive(["server"]))
            home.lines.clear()
            client.events.clear()
            client.log.clear()

        for number in range(WARM_UP_ROUNDS):
            await play(number)
        gauge = Gauge(client, counted)
        await until_seen(lambda: len(children_of(client.process.pid)) <= 1)  # the reaper stays
        before, threads, memory_bytes = await gauge.held(), gauge.threads, gauge.memory_bytes
        for number in range(WARM_UP_ROUNDS, WARM_UP_ROUNDS + rounds):
            await play(number)
        await gauge.settles_at(before)
        grown_bytes = gauge.memory_bytes - memory_bytes
        logger.info("%d rounds: %s and %d threads", rounds, before, threads)
        logger.info("then so again, %d threads, %+d bytes", gauge.threads, grown_bytes)
        assert gauge.threads <= threads + THREADS_MORE
        assert grown_bytes < MEMORY_BYTES_MORE
        assert await client.end() == 0
