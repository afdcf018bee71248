"""Connections with servers of 2026, each of whose requests stands for itself."""

from __future__ import annotations

import pytest

from support.mcp.host import FakeHost, lines, spoken_with
from treadle.mcp.remote import ElicitationAnswer, Elicited, RemoteError, RemoteResult

MODERN = """
def initialize(request): fail(request)
def discover(request):
    capabilities = {"tools": {"listChanged": True}}
    whole(request, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
def whole(request, result):
    ours = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    answer(request, {**ours, **result})
def list(request):
    whole(request, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
def call(request): whole(request, text(json.dumps(request["params"].get("inputResponses"))))
"""

ASKING = """
def call(request):
    params = request["params"]
    if "inputResponses" in params:
        told = {"said": params["inputResponses"], "state": params["requestState"]}
        return whole(request, text(json.dumps(told, sort_keys=True)))
    asked = {"mode": MODE, "message": "Who?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "string"}}}, "url": "https://example.com",
        "elicitationId": "1"}
    answer(request, {"resultType": "input_required", "requestState": "s-1",
        "inputRequests": {"who": {"method": "elicitation/create", "params": asked}}})
"""


def said(result: RemoteResult) -> str:
    return str(result.blocks[0]["text"])


async def test_a_call_that_asks_the_person_goes_on_with_the_answer() -> None:
    host = FakeHost(answer=ElicitationAnswer("accept", {"name": "Ada"}))
    program = (MODERN, "MODE = 'form'", ASKING)
    async with spoken_with(*lines(*program), host=host) as (connection, _):
        result = await connection.call("echo", {}, seconds=10, progress=host.note)
    assert said(result) == (
        '{"said": {"who": {"action": "accept", "content": {"name": "Ada"}}}, "state": "s-1"}'
    )
    assert host.asked == [
        Elicited("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    ]


async def test_a_call_that_asks_for_what_it_does_not_get_says_so() -> None:
    host = FakeHost()
    program = (MODERN, "MODE = 'url'", ASKING)
    async with spoken_with(*lines(*program), host=host) as (connection, _):
        with pytest.raises(RemoteError, match=r"^the server asked for what it does not get: only"):
            await connection.call("echo", {}, seconds=10, progress=host.note)


async def test_a_call_that_asks_again_and_again_ends() -> None:
    host = FakeHost(answer=ElicitationAnswer("decline"))
    program = (MODERN, "MODE = 'form'", ASKING.replace('"inputResponses" in params', "False"))
    async with spoken_with(*lines(*program), host=host) as (connection, _):
        with pytest.raises(RemoteError, match="asked something back 10 times"):
            await connection.call("echo", {}, seconds=10, progress=host.note)
    assert len(host.asked) == 10


async def test_a_tool_whose_headers_are_others_by_now_is_listed_and_called_again() -> None:
    program = """
listed = 0
def list(request):
    global listed
    listed += 1
    whole(request, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
def call(request):
    if not listed: return fail(request, -32020, "header mismatch")
    whole(request, text(f"listed {listed}"))
"""
    host = FakeHost()
    async with spoken_with(*lines(MODERN, program), host=host) as (connection, _):
        result = await connection.call("echo", {}, seconds=10, progress=host.note)
    assert said(result) == "listed 1"


LISTENING = """
streams = []
def listen(request):
    streams.append(request)
    meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
    write({"method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta, "notifications": {"toolsListChanged": HONORED}}})
    if len(streams) < 3: END
def call(request): whole(request, text(str(len(streams))))
"""


@pytest.mark.parametrize("end", ["whole(request, {})", "fail(request)"])
async def test_a_stream_of_changes_that_ends_is_opened_again_and_counts_as_a_change(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.mcp.sdk.listening.FIRST_WAIT_SECONDS", 0.01)
    host = FakeHost()
    program = (MODERN, LISTENING.replace("HONORED", "True").replace("END", end))
    async with spoken_with(*lines(*program), host=host) as (connection, _):
        await host.until(lambda: host.changes == 2)
        result = await connection.call("echo", {}, seconds=10, progress=host.note)
    assert said(result) == "3"


async def test_a_server_that_tells_no_changes_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.mcp.sdk.listening.FIRST_WAIT_SECONDS", 0.01)
    host = FakeHost()
    program = (MODERN, LISTENING.replace("HONORED", "False").replace("END", "whole(request, {})"))
    async with spoken_with(*lines(*program), host=host) as (connection, _):
        for _ in range(5):
            result = await connection.call("echo", {}, seconds=10, progress=host.note)
    assert (said(result), host.changes) == ("1", 0)
