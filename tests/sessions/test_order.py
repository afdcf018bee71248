"""Order and concurrency: serial within a session, parallel across, each prompt ends once."""

from __future__ import annotations

import asyncio
from typing import Any

from support.daemon import Daemon, frame
from support.model_server import Answer, Request, last_user_text, memory
from support.person import by_text, conversation, pair, write_config

SESSIONS = 10
PROMPTS_EACH = 10
TURNS_IN_FLIGHT = 8


def _position(client: Daemon, method: str, instance: str, **members: Any) -> int:
    """Return where in all that was read a notification stands; there has to be one."""
    wanted = {"instance": instance, **members}
    [place] = [
        place
        for place, message in enumerate(client.log)
        if message.get("method") == method and wanted.items() <= message["params"].items()
    ]
    return place


def _reply(client: Daemon, request_id: int) -> int:
    [place] = [place for place, one in enumerate(client.log) if one.get("id") == request_id]
    return place


def _events(client: Daemon, instance: str) -> list[dict[str, Any]]:
    return [one for one in client.events if one["params"].get("instance") == instance]


async def test_a_hundred_prompts_at_once_over_ten_sessions() -> None:
    gate = asyncio.Event()
    peaks: list[int] = []

    def answer(request: Request) -> Answer:
        peaks.append(server.open_requests)
        return Answer(f"Re {last_user_text(request)}", pause_after=1, go_on=gate)

    async with conversation(answer) as (client, server):
        prompts = {
            (session, number): client.ask(
                "session/prompt", pair(f"s{session}", prompt=f"s{session} p{number}")
            )
            for number in range(PROMPTS_EACH)
            for session in range(SESSIONS)
        }
        await server.until(lambda: len(server.requests) == TURNS_IN_FLIGHT)
        # Were there no bound, the last two sessions would be heard of meanwhile.
        for _ in range(20):
            await client.request("session/list")
        parallel = [last_user_text(request) for request in server.requests]
        gate.set()
        results = {key: await reply for key, reply in prompts.items()}

        assert len({text.removesuffix(" p0") for text in parallel}) == TURNS_IN_FLIGHT
        assert all(text.endswith(" p0") for text in parallel)
        assert max(peaks) == TURNS_IN_FLIGHT
        for (session, number), result in results.items():
            instance, text = f"s{session}", f"Re s{session} p{number}"
            assert (result["turn"], result["text"]) == (number + 1, text)
            done = _position(client, "session/done", instance, turn=number + 1, text=text)
            assert done < _reply(client, prompts[session, number].request_id)  # type: ignore[attr-defined]
        for session in range(SESSIONS):
            _assert_serial(client, f"s{session}")
            said = [last_user_text(one) for one in server.requests]
            mine = [text for text in said if text.startswith(f"s{session} ")]
            assert mine == [f"s{session} p{number}" for number in range(PROMPTS_EACH)]
        assert client.strays == []


def _assert_serial(client: Daemon, instance: str) -> None:
    """A session's events have rising numbers, and those of a turn end with its one `done`."""
    events = _events(client, instance)
    assert [one["params"]["seq"] for one in events] == list(range(1, len(events) + 1))
    told = [
        (one["params"]["turn"], one["method"]) for one in events if one["method"] != "session/state"
    ]
    assert told == [
        (turn, method)
        for turn in range(1, PROMPTS_EACH + 1)
        for method in ["session/delta"] * 3 + ["session/done"]
    ]
    states = [one["params"] for one in events if one["method"] == "session/state"]
    queued = [one["queued"] for one in states if one["state"] == "running"]
    assert queued[-PROMPTS_EACH:] == list(range(PROMPTS_EACH - 1, -1, -1))
    assert (states[-1]["state"], states[-1]["queued"]) == ("idle", 0)


async def test_the_bound_on_turns_in_flight_is_the_configuration_s() -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    slow = Answer("One two", pause_after=1)
    async with conversation(by_text({"Slow": slow})) as (client, server):
        first = client.ask("session/prompt", pair("a", prompt="Slow"))
        await client.until(lambda: bool(client.of("session/delta", "a")))
        second = client.ask("session/prompt", pair("b", prompt="Hello"))
        await client.until(lambda: bool(client.of("session/state", "b")))
        waiting = client.of("session/state", "b")[-1]
        requests = len(server.requests)
        # What waits for its turn can be cancelled like anything else.
        third = client.ask("session/prompt", pair("c", prompt="Hello"))
        await client.until(lambda: bool(client.of("session/state", "c")))
        cancelled = await client.request("session/cancel", pair("c"))
        slow.go_on.set()
        outcomes = [(await one)["stopReason"] for one in (first, second, third)]

    assert (waiting["state"], waiting["queued"], requests) == ("idle", 1, 1)
    assert cancelled == {"cancelled": True}
    assert outcomes == ["end_turn", "end_turn", "cancelled"]


async def test_a_resume_is_answered_before_the_first_event_it_causes() -> None:
    async with conversation(memory) as (client, _):
        resumed = client.ask("session/resume", pair("r"))
        prompts = [client.ask("session/prompt", pair("r", prompt=f"p{n}")) for n in range(3)]
        for each in (resumed, *prompts):
            await each

        first_event = min(client.log.index(event) for event in client.events)
        assert _reply(client, resumed.request_id) < first_event  # type: ignore[attr-defined]
        assert client.of("session/state")[0]["seq"] == 1


async def test_a_whole_life_in_one_write() -> None:
    methods = ["resume", "prompt", "prompt", "cancel", "close", "prompt", "close"]
    async with conversation(memory) as (client, server):
        answers = [client.expect(100 + number) for number in range(len(methods))]
        client.stdin.write(
            b"".join(
                frame(
                    {
                        "jsonrpc": "2.0",
                        "id": 100 + number,
                        "method": f"session/{method}",
                        "params": pair("life", prompt=f"My name is Mac{number}."),
                    }
                )
                for number, method in enumerate(methods)
            )
        )
        opened, first, second, cancelled, closed, third, closed_again = [
            await answer for answer in answers
        ]

        assert opened["created"]
        assert (first["stopReason"], second["stopReason"]) == ("cancelled", "closed")
        assert cancelled == {"cancelled": True}
        # The last prompt came before the second close, which stopped it before it opened anything.
        assert third["stopReason"] == "closed"
        assert (closed["closed"], closed_again["closed"]) == (True, False)
        assert server.requests == []
        assert _reply(client, 100) < min(client.log.index(event) for event in client.events)
        seqs = [one["params"]["seq"] for one in client.events]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(client.of("session/done")) == 3
        after = await client.request("session/prompt", pair("life", prompt="My name is Eve."))
        assert (after["turn"], after["text"]) == (1, "Your name is Eve.")
