"""The tool `web_search`, as a model meets it, over backends of every known shape."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support.waiting import PATIENCE_SECONDS
from support.web import PUBLIC, StandInWeb, WebServer, page, redirect, search
from treadle import secrets
from treadle.permissions.approvals import Answer, Approvals, Question
from treadle.permissions.policy import Policy
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.builtin import BUILTIN
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import ToolContext
from treadle.tools.web.backend import SearchBackend
from treadle.tools.web.network import Web

BACKEND = SearchBackend("http://search.example/s?q={query}&format=json")
NAMES = {"search.example": [PUBLIC], "searx.home": ["192.168.1.7"]}
KEY = "key-0123456789"

A = {"title": "A & B", "url": "https://a.example/", "content": "About   A."}


def _answer(results: Any) -> bytes:
    return page(json.dumps(results), "application/json")


async def _found(answer: bytes, backend: SearchBackend = BACKEND, **arguments: Any) -> ToolOutcome:
    async with WebServer({"*": answer}) as server:
        return await search(StandInWeb(server, NAMES), backend, **{"query": "cats", **arguments})


@pytest.mark.parametrize(
    "results",
    [
        {"results": [A], "query": "cats"},
        {"web": {"results": [{**A, "content": None, "description": "About A."}]}},
        {"results": [{**A, "title": "A &amp; <strong>B</strong>", "score": 0.9}]},
        {"organic": [{"title": "A & B", "link": "https://a.example/", "snippet": "About A."}]},
        {"items": [{"title": "A & B", "link": "https://a.example/", "snippet": "About\nA."}]},
        {
            "webPages": {
                "value": [{"name": "A & B", "url": "https://a.example/", "snippet": "About A."}]
            }
        },
        {"results": [None, "x", {}, {"title": "no url"}, {"url": 5}, A]},
    ],
)
async def test_results_are_read_in_every_known_shape(results: Any) -> None:
    assert await _found(_answer(results)) == ToolOutcome(
        "1. A & B\n   https://a.example/\n   About A.", ok=True, truncated=False
    )


async def test_results_are_numbered_bounded_and_may_lack_a_title() -> None:
    many = [{"url": f"https://a.example/{number}"} for number in range(30)]
    outcome = await _found(_answer({"results": many}), limit=2)
    assert outcome.content == (
        "1. https://a.example/0\n   https://a.example/0\n2. https://a.example/1\n"
        "   https://a.example/1"
    )
    outcome = await _found(_answer({"results": many}))
    assert outcome.content.count("\n   https") == 8
    outcome = await _found(_answer({"results": [{**A, "content": "x" * 5000}]}))
    assert outcome.content.endswith("x" * 1000 + "…")
    outcome = await _found(_answer({"results": []}))
    assert outcome.content == "Nothing was found for 'cats'. Ask in other words."


async def test_the_words_and_the_key_reach_the_backend_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEARCH_KEY", f" {KEY}\n")
    url = "http://search.example/s?q={query}&format=json"
    async with WebServer({"*": _answer({"results": [A]})}) as server:
        network = StandInWeb(server, NAMES)
        for backend in (
            SearchBackend(url, "GET", "SEARCH_KEY"),
            SearchBackend(url, "GET", "SEARCH_KEY", "X-Api-Key"),
            SearchBackend("http://search.example/s", "POST", "SEARCH_KEY"),
        ):
            assert (await search(network, backend, query="a&b=c #ü\n{query}")).ok
        first, second, third = server.requests
    assert first.startswith("GET /s?q=a%26b%3Dc%20%23%C3%BC%0A%7Bquery%7D&format=json HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}\r\n" in first
    assert f"X-Api-Key: {KEY}\r\n" in second
    assert "Authorization" not in second
    assert third.startswith("POST /s HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\n" in third
    assert third.endswith('\r\n\r\n{"query":"a&b=c #ü\\n{query}"}')


async def test_a_backend_of_the_persons_own_network_is_reached() -> None:
    async with WebServer() as server, WebServer({"*": _answer({"results": [A]})}) as private:
        network = StandInWeb(server, NAMES, private)
        for host in ("searx.home:8080", "127.0.0.1:8888", "[::1]"):
            backend = SearchBackend(f"http://{host}/search?q={{query}}")
            assert (await search(network, backend, query="cats")).ok
        assert network.connected == [("192.168.1.7", 8080), ("127.0.0.1", 8888), ("::1", 80)]
        assert (server.connections, private.connections) == (0, 3)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (page(status="401 Unauthorized"), "refuses the key. Tell the person to look at SEARCH_KEY"),
        (page(status="403 Forbidden"), "403 Forbidden: it refuses the key"),
        (page(status="429 Too Many Requests"), "too many searches. Wait a while before the next"),
        (page(status="503 Service Unavailable"), "trouble of its own. Try again later"),
        (page(status="400 Bad Request"), "Ask in other words, or tell the person to look at"),
        (redirect("http://127.0.0.1/"), "it has moved. Tell the person to correct url"),
        (page("<html>", "text/html"), "did not answer in JSON"),
        (page("[" * 100_000, "application/json"), "did not answer in JSON"),
        (page(b"\x89PNG", "image/png"), "did not answer in JSON"),
        (page('{"results": "' + "x" * 1_100_000 + '"}', "application/json"), "answer in JSON"),
        (_answer({"error": "no"}), "without a list of results in a known shape"),
        (_answer([A]), "without a list of results in a known shape"),
        (_answer({"results": {"a": 1}, "web": 5}), "without a list of results in a known shape"),
        (b"", "broke off"),
    ],
)
async def test_what_goes_wrong_is_told_in_words_that_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, words: str
) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    outcome = await _found(answer, SearchBackend(BACKEND.url, "GET", "SEARCH_KEY"))
    assert not outcome.ok
    assert words in outcome.content


async def test_a_backend_that_redirects_is_not_followed() -> None:
    async with WebServer({"*": redirect("http://127.0.0.1/")}) as server, WebServer() as private:
        await search(StandInWeb(server, NAMES, private), BACKEND, query="cats")
        assert (server.connections, private.connections) == (1, 0)


async def test_a_backend_that_falls_silent_is_left_at_the_bound() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(PATIENCE_SECONDS)

    async with WebServer({"*": silent}) as server:
        network = StandInWeb(server, NAMES)
        outcome = await search(network, BACKEND, query="cats", request_seconds=0.1)
    assert "search.example did not answer in whole within 0.1 s" in outcome.content


@pytest.mark.parametrize("key", [None, "  ", "key-with-\u00fc-in-it", "two\nlines of key"])
async def test_a_key_that_is_missing_or_cannot_be_sent_is_told_and_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("SEARCH_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("SEARCH_KEY", key)
    async with WebServer() as server:
        network = StandInWeb(server, NAMES)
        backend = SearchBackend(BACKEND.url, "GET", "SEARCH_KEY")
        outcome = await search(network, backend, query="cats")
        assert (outcome.ok, server.connections) == (False, 0)
    assert outcome.content.startswith("Search is not set up: the variable SEARCH_KEY holds no key")
    assert (key or "?") not in outcome.content or not (key or "").strip()


async def test_a_key_that_a_backend_repeats_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_names", ("SEARCH_KEY",))
    monkeypatch.setenv("SEARCH_KEY", KEY)
    echo = {**A, "title": KEY, "content": "x" * 990 + KEY}
    outcome = await _found(_answer({"results": [echo]}))
    assert "1. [secret SEARCH_KEY]\n" in outcome.content
    assert KEY[:8] not in outcome.content


async def test_without_a_backend_the_tool_says_that_search_is_not_set_up() -> None:
    async with WebServer() as server:
        outcome = await search(StandInWeb(server), None, query="cats")
    assert outcome.content == "Search is not set up. Tell the person, and go on without it."


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": "x" * 501}, {"query": 5}])
async def test_words_that_are_none_are_refused_with_the_schema(arguments: dict[str, Any]) -> None:
    async with WebServer() as server:
        outcome = await search(StandInWeb(server), BACKEND, **arguments)
        assert (outcome.ok, server.connections) == (False, 0)
    assert outcome.content.startswith("The arguments of web_search do not fit: ")


async def test_a_person_is_asked_by_the_words_that_would_be_looked_for() -> None:
    class Person:
        """Somebody who says no, and remembers what was asked."""

        asked: Question | None = None

        async def ask(self, question: Question) -> Answer:
            self.asked = question
            return "deny"

    person = Person()
    async with WebServer() as server:
        session = ToolSession(approvals=Approvals(person))
        session.web = Web(StandInWeb(server, NAMES), BACKEND)
        context = ToolContext(VirtualSandbox(), session, Policy("ask"))
        call = ToolCall("1", "web_search", {"query": "my  secret plans"})
        outcome = await run_call(call, BUILTIN, context)
        assert server.connections == 0
    assert outcome.content.startswith("web_search was not allowed")
    covers = "every call of web_search"
    assert person.asked == Question(call, "network", "my secret plans", "", covers)
