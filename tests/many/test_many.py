"""Many clients and sessions on one daemon: nothing is lost, order is kept, nobody waits for others.

With `TREADLE_MANY=1` it is 200 clients and 1,000 sessions; else a tenth of that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import write_agent, write_config
from support.shared import connected
from support.socket_client import SocketClient, socket_clients
from support.waiting import PATIENCE_SECONDS

WHOLE = os.environ.get("TREADLE_MANY") == "1"
CLIENTS, SESSIONS = (200, 1000) if WHOLE else (20, 100)

# All of them talk at once; a daemon that queues behind eight turns would prove nothing here.
AT_ONCE = f"[sessions]\nturns_in_flight = {CLIENTS}\n"

NAME = "many"


def pair(number: int) -> dict[str, str]:
    return {"agent": NAME, "instance": f"s{number}"}


@asynccontextmanager
async def served(answer: Callable[[Request], Answer]) -> AsyncIterator[ModelServer]:
    async with ModelServer(answer) as server:
        write_config(AT_ONCE)
        write_agent(NAME, model="test-model", base_url=server.base_url)
        async with connected():  # which starts the daemon
            yield server


async def everybody(work: list[Any]) -> list[Any]:
    async with asyncio.timeout(PATIENCE_SECONDS * (10 if WHOLE else 2)):
        return await asyncio.gather(*work)


async def test_every_prompt_of_every_client_gets_its_own_answer_in_order() -> None:
    def echo(request: Request) -> Answer:
        return Answer(f"You said: {last_user_text(request)}")

    async with served(echo), socket_clients(CLIENTS) as clients:

        def owner(number: int) -> SocketClient:
            return clients[number % CLIENTS]

        # Two prompts for each session at once: the second waits for the first.
        asked = [
            (number, text, owner(number).ask("session/prompt", {**pair(number), "prompt": text}))
            for number in range(SESSIONS)
            for text in (f"one {number}", f"two {number}")
        ]
        results = await everybody([answer for _, _, answer in asked])
        for (_, text, _), result in zip(asked, results, strict=True):
            assert result["text"] == f"You said: {text}"
            assert result["stopReason"] == "end_turn"
        for number in range(SESSIONS):
            check_order(owner(number), number)
        first = clients[0]
        for number in range(0, SESSIONS, SESSIONS // 10):
            read = (await first.request("session/read", pair(number)))["messages"]
            assert [one["content"] for one in read] == [
                f"one {number}",
                f"You said: one {number}",
                f"two {number}",
                f"You said: two {number}",
            ]
        told = await first.request("daemon/status")
        assert told["sessions"]["open"] == SESSIONS
        assert told["sessions"]["held"] <= 256 + CLIENTS


def check_order(client: SocketClient, number: int) -> None:
    """See that a session's events are contiguous, and that its turns did not mix."""
    told = [
        message
        for message in client.log
        if "method" in message and message["params"].get("instance") == f"s{number}"
    ]
    seqs = [message["params"]["seq"] for message in told]
    assert seqs == list(range(1, len(seqs) + 1))
    turns = [params["turn"] for params in client.of("session/delta", f"s{number}")]
    assert turns == sorted(turns) and set(turns) == {1, 2}
    assert len(client.of("session/done", f"s{number}")) == 2


@pytest.mark.parametrize("method", ["session/cancel", "session/read", "session/list", "mcp/list"])
async def test_nobody_waits_while_others_stream(method: str) -> None:
    # Each says fifty words a second, for longer than anybody waits.
    endless = partial(Answer, ["word "] * 100_000, interval_seconds=0.02)
    async with served(lambda request: endless()) as server, socket_clients(CLIENTS) as clients:
        *streaming, asking = clients
        turns = [
            client.ask("session/prompt", {**pair(number), "prompt": "Talk."})
            for number, client in enumerate(streaming)
        ]
        mine = asking.ask("session/prompt", {**pair(SESSIONS), "prompt": "Talk."})
        await everybody([has_heard(client, 10) for client in clients])
        await asking.request(method, pair(SESSIONS) if method != "session/list" else {})
        # It was answered in the midst of the streams, not behind them.
        assert not any(turn.done() for turn in turns)
        await asking.request("session/cancel", pair(SESSIONS))
        assert (await mine)["stopReason"] == "cancelled"
        assert not any(turn.done() for turn in turns)
        await everybody(
            [
                client.request("session/cancel", pair(number))
                for number, client in enumerate(streaming)
            ]
        )
        assert {(await turn)["stopReason"] for turn in turns} == {"cancelled"}
        await server.until(lambda: server.open_requests == 0)


async def has_heard(client: SocketClient, deltas: int = 1) -> None:
    """Wait until a client has heard some of its answer."""
    await client.until(
        lambda: sum(message.get("method") == "session/delta" for message in client.log) >= deltas
    )


async def test_clients_that_come_and_go_leave_nothing() -> None:
    async with served(lambda request: Answer("Fine.")):
        for _ in range(3):
            async with socket_clients(CLIENTS) as clients:
                await everybody(
                    [
                        client.request("session/prompt", {**pair(number), "prompt": "Hi."})
                        for number, client in enumerate(clients)
                    ]
                )
        async with socket_clients(1) as (last,), asyncio.timeout(PATIENCE_SECONDS):
            # Beside this one there is the client that has started the daemon.
            while (await last.request("daemon/status"))["clients"] != 2:
                pass
