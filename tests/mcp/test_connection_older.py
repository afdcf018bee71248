"""Connections over the transport of 2024: one stream of events, and requests beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.mcp.host import FakeHost, call, reached
from support.mcp.official import build
from support.mcp.web import OPEN, Plain, served
from treadle.mcp.remote import RemoteError


async def test_the_older_transport_answers_as_well() -> None:
    host = FakeHost()
    async with (
        served(build().sse_app(transport_security=OPEN), path="/sse") as web,
        reached(web.url, host=host, transport="sse") as connection,
    ):
        assert "add" in [tool.name for tool in await connection.list_tools(10)]
        assert (await call(connection, "add", a=1, b=2)).structured == {"sum": 3}
        assert (await call(connection, "large", size=3_000_000)).blocks[0]["type"] == "text"


async def test_a_stream_that_ends_loses_the_older_transport() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await Plain()(scope, receive, send)
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        answer = Plain().own("POST", {"id": 1, "method": "initialize"})[2]
        if scope["path"] == "/post":
            asked.set()
            return await send({"type": "http.response.body", "body": b""})
        place = b"event: endpoint\ndata: /post\n\n"
        await send({"type": "http.response.body", "body": place, "more_body": True})
        await asked.wait()
        data = b"data: " + answer + b"\n\n"
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await ended.wait()
        return await send({"type": "http.response.body", "body": b""})

    async with served(app) as web, reached(web.url, transport="sse") as connection:
        calling = asyncio.create_task(call(connection))
        await web.until(lambda: web.asked("POST") == 3)
        ended.set()
        with pytest.raises(RemoteError, match="the server ended the connection while it answered"):
            await calling
        assert await connection.wait_lost() == "the server ended the connection"


async def test_a_message_that_the_older_transport_cannot_send_fails_alone() -> None:
    app = build().sse_app(transport_security=OPEN)
    is_busy = False

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        if not is_busy or scope["type"] != "http" or scope["method"] != "POST":
            return await app(scope, receive, send)
        await send({"type": "http.response.start", "status": 503, "headers": []})
        return await send({"type": "http.response.body", "body": b""})

    async with (
        served(busy, path="/sse") as web,
        reached(web.url, transport="sse") as connection,
    ):
        is_busy = True
        with pytest.raises(RemoteError, match="HTTP 503"):
            await call(connection, "add", a=1, b=2)
        is_busy = False
        assert (await call(connection, "add", a=1, b=2)).structured == {"sum": 3}


async def test_the_older_transport_follows_no_server_to_another_host() -> None:
    async def elsewhere(method: str, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        place = b"event: endpoint\ndata: http://example.com/post\n\n"
        return 200, {"content-type": "text/event-stream"}, place

    async with served(Plain(elsewhere)) as web:
        with pytest.raises(RemoteError, match=r"^the server sends us to another host, example.com"):
            async with reached(web.url, transport="sse"):
                pytest.fail("it is connected")
