"""What many clients and sessions cost the shared daemon: memory each, and how long others wait.

    python tests/benchmarks/many.py [clients] [sessions]

The daemon is a process of its own, and so is whoever asks it; the model server and the clients
that listen to streams are in this one. Each latency is measured alone and beside all streams
within one run: compare the ratios.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.model_server import Answer, ModelServer
from support.person import write_agent, write_config
from support.process import resident_bytes
from support.shared import connected, daemon_pid, end_daemon
from support.socket_client import SocketClient, socket_clients

NAME = "many"
SAMPLES = 200
ASK = "--ask"


def pair(instance: str) -> dict[str, str]:
    return {"agent": NAME, "instance": instance}


async def asked() -> dict[str, list[float]]:
    """Ask the daemon from a process of its own; return how many milliseconds each call took."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, ASK, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    found: dict[str, list[float]] = json.loads(out)
    return found


async def ask() -> None:
    """Be that process."""
    taken: dict[str, list[float]] = {"cancel": [], "read": []}
    async with socket_clients(1) as (client,):
        for _ in range(SAMPLES):
            for name, times in taken.items():
                began = time.perf_counter()
                await client.request(f"session/{name}", pair("x"))
                times.append((time.perf_counter() - began) * 1000)
    print(json.dumps(taken))


def row(name: str, alone: list[float], beside: list[float]) -> None:
    for mark, pick in (("median", statistics.median), ("p99", partial(percentile, share=0.99))):
        first, second = pick(alone), pick(beside)
        print(f"{name:<16} {mark:<7} {first:8.2f} {second:8.2f}  x{second / first:.1f}")


def percentile(taken: list[float], share: float) -> float:
    return sorted(taken)[int(len(taken) * share) - 1]


async def main(clients: int, sessions: int) -> None:
    endless = partial(Answer, ["word "] * 100_000, interval_seconds=0.05)
    short = partial(Answer, "Fine.")

    def answer(request: dict[str, object]) -> Answer:
        return endless() if "Talk" in str(request) else short()

    async with ModelServer(answer) as server:
        write_config(f"[sessions]\nturns_in_flight = {clients + 8}\nheld_sessions = {sessions}\n")
        write_agent(NAME, model="test-model", base_url=server.base_url)
        async with connected(), socket_clients(1) as (asking,):
            await asking.request("session/prompt", {**pair("x"), "prompt": "Hi."})
            await memory(asking, clients, sessions)
            await latencies(asking, clients)


async def memory(asking: SocketClient, clients: int, sessions: int) -> None:
    pid = daemon_pid()
    before = resident_bytes(pid)
    async with socket_clients(clients) as idle:
        await asyncio.gather(*(client.request("session/list") for client in idle))
        each = (resident_bytes(pid) - before) / clients / 1024
        print(f"an idle connection       {each:8.1f} KiB")
    before = resident_bytes(pid)
    for number in range(sessions):
        await asking.request("session/prompt", {**pair(f"s{number}"), "prompt": "Hi."})
    held = (resident_bytes(pid) - before) / sessions / 1024
    print(f"an idle session, held    {held:8.1f} KiB")


async def latencies(asking: SocketClient, clients: int) -> None:
    alone = await asked()
    async with socket_clients(clients) as talking:
        turns = [
            client.ask("session/prompt", {**pair(f"t{number}"), "prompt": "Talk."})
            for number, client in enumerate(talking)
        ]
        for client in talking:
            await client.until(lambda client=client: len(client.log) > 5)
        beside = await asked()
        print(f"\n{'milliseconds':<16} {'':<7} {'alone':>8} {'beside':>8}  {clients} streams")
        for name, times in alone.items():
            row(name, times, beside[name])
        for number in range(clients):
            await asking.request("session/cancel", pair(f"t{number}"))
        await asyncio.gather(*turns, return_exceptions=True)


if __name__ == "__main__":
    if ASK in sys.argv:
        asyncio.run(ask())
        raise SystemExit
    counts = [int(word) for word in sys.argv[1:]] + [200, 1000][len(sys.argv) - 1 :]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("DATA", "CONFIG", "CACHE", "LOG", "RUNTIME"):
            os.environ[f"TREADLE_{name}_DIR"] = f"{folder}/{name.lower()}"
        try:
            asyncio.run(main(*counts))
        finally:
            end_daemon()
