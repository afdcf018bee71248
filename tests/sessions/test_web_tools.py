"""`fetch_allow` and `[search]`, from a person's files to what a model is told and may reach."""

from __future__ import annotations

import json

from support.model_server import Answer, Request
from support.person import conversation, pair, write_agent, write_config
from support.web import WebServer, page


def _told(request: Request) -> list[str]:
    """Return which tools of the web a model was told of."""
    names = [tool["function"]["name"] for tool in request.get("tools", [])]
    return [name for name in names if name in ("fetch", "web_search")]


def _results(request: Request) -> list[str]:
    return [one["content"] for one in request["messages"] if one["role"] == "tool"]


async def test_an_agent_fetches_where_its_file_says_and_this_machine_stays_unasked() -> None:
    write_agent("reader", fetch_allow="[docs.example, localhost.example]")
    write_agent("other")
    async with WebServer() as private:
        urls = [f"http://127.0.0.1:{private.port}/", f"http://localhost:{private.port}/"]
        calls = Answer(calls=[("fetch", {"url": url}) for url in urls])

        def answer(request: Request) -> Answer:
            return Answer("Done.") if _results(request) else calls

        async with conversation(answer) as (client, server):
            listed = {
                agent["name"]: "fetch" in agent["tools"]
                for agent in (await client.request("agent/list"))["agents"]
            }
            await client.request("session/prompt", pair("w", "reader", prompt="Look."))
            await client.request("session/prompt", pair("w", "other", prompt="Look."))
        assert private.connections == 0
    assert listed == {"assistant": False, "other": False, "reader": True}
    first, second, third, fourth = server.requests
    assert (_told(first), _told(third)) == (["fetch"], [])
    assert [text.split(":")[0] for text in _results(second)] == [
        "127.0.0.1 is none of the hosts that this agent may fetch from",
        "localhost is none of the hosts that this agent may fetch from",
    ]
    assert all(text.startswith("There is no tool 'fetch'.") for text in _results(fourth))


async def test_search_is_offered_from_the_turn_on_in_which_a_backend_is_set_up() -> None:
    write_agent("free", permissions="auto")
    write_agent("strict")
    found = json.dumps({"results": [{"title": "A", "url": "https://a.example/"}]})
    searching = Answer(calls=[("web_search", {"query": "cats"})])

    def answer(request: Request) -> Answer:
        return searching if _told(request) and not _results(request) else Answer("Done.")

    async with WebServer({"*": page(found, "application/json")}) as backend:
        async with conversation(answer) as (client, server):
            await client.request("session/prompt", pair("s", "free", prompt="Search."))
            write_config(f"[search]\nurl = 'http://127.0.0.1:{backend.port}/?q={{query}}'\n")
            await client.request("session/prompt", pair("s", "free", prompt="Search now."))
            await client.request("session/prompt", pair("s", "strict", prompt="Search."))
            listed = {
                agent["name"]: "web_search" in agent["tools"]
                for agent in (await client.request("agent/list"))["agents"]
            }
        assert backend.targets == ["/?q=cats"]
    assert listed == {"assistant": False, "free": True, "strict": False}
    assert [_told(request) for request in server.requests] == [
        [],
        ["web_search"],
        ["web_search"],
        [],
    ]
    assert _results(server.requests[2]) == ["1. A\n   https://a.example/"]
