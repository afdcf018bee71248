"""What ten thousand stored threads cost, and one of a hundred thousand messages: run by hand.

Run it with `python tests/benchmarks/stored.py` from the project's root.
A daemon in a process of its own is asked through its pipes; each time is one request's, and the
median of some rounds is told where a request can be repeated. The files are in the system's cache:
what is measured is our work, not the disk's.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# As pytest has it.
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.daemon import Daemon, daemon
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.thread.message import Message, encode_line
from treadle.thread.paths import thread_path
from treadle.thread.records import ThreadRecord, TurnRecord, encode_record

AGENTS = 10
THREADS_EACH = 1000
MESSAGES_EACH = 20
LONG = 100_000
ROUNDS = 7

AT = "2026-01-01T00:00:00.000Z"


def _lines(agent: str, instance: str, messages: int) -> bytes:
    lines = [encode_record(ThreadRecord(1, agent, instance, AT))]
    for number in range(1, messages // 2 + 1):
        key = f"key-{number}"
        first = 2 * number - 2
        lines += [
            encode_record(TurnRecord(number, "start", AT, key=key, messages=first)),
            encode_line(Message("user", "What is in the file? " * 8, at=AT, turn=number)),
            encode_line(Message("assistant", "It defines f. " * 30, at=AT, turn=number)),
            encode_record(TurnRecord(number, "end", AT, "end_turn")),
        ]
    return b"\n".join(lines) + b"\n"


def _store(data: Path, agent: str, instance: str, messages: int) -> None:
    path = thread_path(data, agent, instance)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_lines(agent, instance, messages))


async def _timed(name: str, work: Callable[[], Awaitable[Any]], rounds: int = 1) -> Any:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = await work()
        times.append((time.perf_counter() - start) * 1000)
    print(f"{name:<58}{statistics.median(times):9.1f} ms")
    return result


async def _listing(client: Daemon) -> None:
    async def every_page() -> int:
        count, cursor = 0, None
        while True:
            page = await client.request("session/list", {"limit": 1000, "cursor": cursor})
            count += len(page["sessions"])
            cursor = page.get("nextCursor")
            if cursor is None:
                return count

    await _timed("session/list, first page, first time", lambda: client.request("session/list"))
    first = {"limit": 200}
    await _timed("session/list, first page", lambda: client.request("session/list", first), ROUNDS)
    await _timed("session/list, all 10,000, first time", every_page)
    assert await _timed("session/list, all 10,000", every_page, ROUNDS) == AGENTS * THREADS_EACH


async def _long(client: Daemon) -> None:
    pair = {"agent": "assistant", "instance": "long"}
    keys = iter(range(LONG))

    def read(**params: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: client.request("session/read", {**pair, **params})

    def prompt(key: str) -> Awaitable[Any]:
        return client.request("session/prompt", {**pair, "prompt": "Hello", "key": key})

    await _timed("100,000 messages, closed: the last 10", read(last=10), ROUNDS)
    await _timed("100,000 messages, closed: a page of 1,000", read(cursor="50000", limit=1000), 3)
    await _timed("resume", lambda: client.request("session/resume", pair))
    await _timed("open: the last 10", read(last=10), ROUNDS)
    await _timed("a prompt without a key", lambda: client.request(
        "session/prompt", {**pair, "prompt": "Hello"}
    ), ROUNDS)  # fmt: skip
    await _timed("a prompt under a key, the first", lambda: prompt("first"))
    await _timed("a prompt under a new key, later", lambda: prompt(f"new-{next(keys)}"), ROUNDS)
    await _timed("a prompt under a used key", lambda: prompt("first"), ROUNDS)
    into = (f"copy-{number}" for number in range(ROUNDS))
    await _timed("fork", lambda: client.request("session/fork", {**pair, "into": next(into)}), 3)
    await _timed("rewind", lambda: client.request("session/rewind", {**pair, "to": 9}))
    await _timed("delete", lambda: client.request("session/delete", pair))


async def _nothing(client: Daemon) -> None:
    """Ask nothing."""


def _ask(env: dict[str, str], work: Callable[[Daemon], Awaitable[None]]) -> None:
    async def ask() -> None:
        start = time.perf_counter()
        async with daemon(env=env) as client:
            print(f"{'initialize':<58}{(time.perf_counter() - start) * 1000:9.1f} ms")
            await work(client)

    asyncio.run(ask())


def main() -> None:
    """Measure with files that are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        names = (DATA_VARIABLE, CONFIG_VARIABLE, LOG_VARIABLE)
        places = {name: str(Path(folder, name)) for name in names}
        script = Path(folder, "replies.jsonl")
        script.write_text('{"echo": true}\n')
        env = {**places, "TREADLE_MODEL": f"scripted:{script}"}
        data = Path(places[DATA_VARIABLE])
        _ask(env, _nothing)
        for agent in range(AGENTS):
            for instance in range(THREADS_EACH):
                _store(data, f"agent{agent}", f"instance {instance}", MESSAGES_EACH)
        print(f"with {AGENTS * THREADS_EACH:,} threads of {MESSAGES_EACH} messages:")
        _ask(env, _listing)
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "treadle", "sessions", "list"],
            env={**os.environ, **env},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        print(f"{'treadle sessions list':<58}{(time.perf_counter() - start) * 1000:9.1f} ms")
        print(f"with one of {LONG:,} messages beside them:")
        _store(data, "assistant", "long", LONG)
        _ask(env, _long)


if __name__ == "__main__":
    main()
