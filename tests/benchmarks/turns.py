"""How long Treadle's own part of a turn takes, against the model server alone.

Run it by hand: `python tests/benchmarks/turns.py`. It prints medians and fails nothing, for no
two machines agree; what counts is the daemon's figure beside the floor of the same run. The
model server runs in this very process, so both figures hold its part.
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
from collections.abc import Awaitable, Callable
from pathlib import Path

# The kit lies beside this folder, and nobody but pytest knows that.
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.daemon import Daemon, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, pair, write_config
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE

# As many as keep the median still from run to run, within a minute.
ROUNDS = 30
LONG_ROUNDS = 5

# A fast model's pace; without one, the figure would be this process's own, reading nine floods.
PACE_SECONDS = 0.005
PIECES = [f"{number} " for number in range(5_000)]


def _answer(request: Request) -> Answer:
    text = last_user_text(request)
    if text == "long":
        return Answer(PIECES)
    if text == "endless":
        return Answer(["word "] * 200_000, interval_seconds=PACE_SECONDS)
    if text == "held":
        return Answer("One two three", pause_after=1)
    return Answer(["Fine."])


async def _floor(server: ModelServer, text: str) -> None:
    """Do what no client can do without: send the request, read the stream to its end."""
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    while b"[DONE]" not in await reader.readline():
        pass
    writer.close()


async def _median_ms(rounds: int, work: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


async def _turns(client: Daemon, server: ModelServer) -> None:
    def turn(text: str) -> Callable[[], Awaitable[object]]:
        return lambda: client.request("session/prompt", pair("bench", prompt=text))

    await turn("warm up")()
    for name, text, rounds in [
        ("warm turn", "hello", ROUNDS),
        ("turn of 5,000 deltas", "long", LONG_ROUNDS),
    ]:
        floor = await _median_ms(rounds, lambda text=text: _floor(server, text))
        through = await _median_ms(rounds, turn(text))
        _tell(name, through, f"the server alone {floor:.2f} ms, ours {through - floor:.2f} ms")


async def _cancels(client: Daemon) -> None:
    """Cancel one session's turn, again and again, while nine others stream."""
    for number in range(9):
        client.ask("session/prompt", pair(f"other {number}", prompt="endless"))
    taken = []
    for number in range(ROUNDS):
        running = client.ask("session/prompt", pair("mine", prompt="held"))
        seen = number + 1
        await client.until(lambda seen=seen: len(client.of("session/delta", "mine")) >= seen)
        start = time.perf_counter()
        await client.request("session/cancel", pair("mine"))
        taken.append((time.perf_counter() - start) * 1000)
        await running
        client.events[:] = [one for one in client.events if one["params"]["instance"] == "mine"]
        client.log.clear()
    _tell("cancel while 9 stream", statistics.median(taken), "asked and answered")


def _tell(name: str, milliseconds: float, beside: str) -> None:
    print(f"{name:<24}{milliseconds:9.2f} ms   ({beside})")


async def _measure() -> None:
    async with ModelServer(_answer) as server, daemon(env=on(server)) as client:
        await _turns(client, server)
        await _cancels(client)


def main() -> None:
    """Measure with folders that are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[DATA_VARIABLE] = f"{folder}/data"
        os.environ[CONFIG_VARIABLE] = f"{folder}/config"
        write_config("[sessions]\nturns_in_flight = 10\n")
        asyncio.run(_measure())


if __name__ == "__main__":
    main()
