"""Connections with servers behind a url: in both eras, over both transports, and what fails."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from support.mcp.host import FakeHost, call, reached
from support.mcp.official import build
from support.mcp.web import OPEN, Plain, Web, free_port, served
from support.waiting import PATIENCE_SECONDS
from treadle.mcp.remote import Era, RemoteError, RemoteResult

ERAS: tuple[Era, ...] = ("handshake", "modern")


def said(result: RemoteResult) -> str:
    return str(result.blocks[0]["text"])


def official_app() -> Any:
    return build().streamable_http_app(transport_security=OPEN)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_of_either_era_answers_and_tells_of_changes(era: Era) -> None:
    host = FakeHost()
    async with served(official_app()) as web:
        async with reached(web.url, host=host, era=era) as connection:
            assert (connection.era, connection.server) == (era, "official 3")
            assert "add" in [tool.name for tool in await connection.list_tools(10)]
            assert (await call(connection, "add", a=1, b=2)).structured == {"sum": 3}
            await connection.call("steps", {}, seconds=10, progress=host.note)
            await host.until(lambda: host.progress == [("half way", 1.0, 2.0)])
            if era == "handshake":
                # The server cannot tell before it is listened to.
                await web.until(lambda: web.asked("GET") == 1)
            await call(connection, "grow")
            await host.until(lambda: host.changes > 0)
        assert web.asked("DELETE") == (1 if era == "handshake" else 0)


@pytest.mark.parametrize("era", ERAS)
async def test_a_large_event_comes_whole(era: Era) -> None:
    async with served(official_app()) as web, reached(web.url, era=era) as connection:
        assert len(said(await call(connection, "large", size=5_000_000))) == 5_000_000


async def test_headers_reach_every_request() -> None:
    headers = (("Authorization", "Bearer token-123"), ("X-Team", "blue"))
    async with served(Plain()) as web:
        async with reached(web.url, headers=headers) as connection:
            await call(connection)
        assert {method for method, _ in web.requests} == {"POST", "GET", "DELETE"}
        for _, sent in web.requests:
            assert (sent["authorization"], sent["x-team"]) == ("Bearer token-123", "blue")


async def test_neither_payloads_nor_tokens_reach_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(official_app()) as web:
        headers = (("Authorization", "Bearer token-123"),)
        async with reached(web.url, headers=headers) as connection:
            await call(connection, "add", a=1234321, b=2)
    assert not [
        each
        for each in caplog.records
        if "token-123" in each.getMessage() or "1234321" in each.getMessage()
    ]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_missing_token_is_said_so(status: int, transport: Any) -> None:
    async def refuse(method: str, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return status, {"www-authenticate": "Bearer"}, b"who are you?"

    async with served(Plain(refuse)) as web:
        with pytest.raises(RemoteError) as caught:
            async with reached(web.url, transport=transport):
                pytest.fail("it is connected")
        assert caught.value.message == (
            f"the server refuses us (HTTP {status}): its token is missing or not accepted; name "
            "the variable that holds it with `token_env`. Signing in by OAuth is not supported"
        )
        # Another way of asking would be refused as well.
        assert len(web.requests) == 1


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_is_not_there_is_said_so(transport: Any) -> None:
    with pytest.raises(RemoteError, match=r"^the server cannot be reached: [^\n]*$"):
        async with reached(f"http://127.0.0.1:{free_port()}/mcp", transport=transport):
            pytest.fail("it is connected")


async def test_what_is_no_server_at_all_is_said_so() -> None:
    async def page(method: str, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return 404, {"content-type": "text/html"}, b"<html>"

    async with served(Plain(page)) as web:
        with pytest.raises(
            RemoteError, match=r"^the server cannot be spoken with: the server answered with HTTP"
        ):
            async with reached(web.url):
                pytest.fail("it is connected")


class Trouble:
    """Calls whose text names a trouble get into it; all others are answered once it is over."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.waiting = 0

    async def __call__(
        self, method: str, message: dict[str, Any]
    ) -> tuple[int, dict[str, str], bytes] | None:
        if message.get("method") != "tools/call":
            return None
        arguments = message["params"]["arguments"]
        if arguments.get("wait"):
            self.waiting += 1
            await self.release.wait()
            return None
        trouble = arguments.get("trouble")
        if trouble == "break":
            raise ConnectionError("on purpose")
        if trouble == "short":
            return 200, {"content-type": "application/json"}, b'{"jsonrpc": "2.0", "id": 2, '
        if trouble in ("torn", "torn-events"):
            kind = "application/json" if trouble == "torn" else "text/event-stream"
            return 200, {"content-type": kind, "content-length": "1000"}, b'data: {"jsonrpc"'
        if trouble == "packed":
            return 200, {"content-type": "application/json", "content-encoding": "gzip"}, b"no"
        if trouble == "page":
            return 200, {"content-type": "text/html"}, b"<html>"
        if trouble == "accepted":
            return 202, {}, b""
        if trouble == "silent":
            return 200, {"content-type": "text/event-stream"}, b": nothing\n\n"
        if trouble == "garbage":
            return 200, {"content-type": "text/event-stream"}, b"data: no message\n\n"
        if trouble == "words":
            error = {"code": -32602, "message": "no such city"}
            body = {"jsonrpc": "2.0", "id": None, "error": error}
            return 400, {"content-type": "application/json"}, json.dumps(body).encode()
        return (int(trouble), {"content-type": "text/plain"}, b"busy") if trouble else None


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("break", ""),
        ("short", "the server's answer cannot be read"),
        ("torn", "the server's answer cannot be read"),
        ("torn-events", "the connection broke off while the server answered"),
        ("packed", "the server packs what it sends"),
        ("page", "Unexpected content type"),
        ("accepted", "202 Accepted"),
        ("silent", "the connection broke off while the server answered"),
        ("garbage", "the server's answer cannot be read"),
        ("words", "the server answered with an error: no such city"),
        ("500", "the server answered with HTTP 500"),
        ("400", "the server answered with HTTP 400"),
        ("429", "the server answered with HTTP 429"),
        ("307", "the server answered with"),
    ],
)
async def test_a_request_that_fails_is_its_own_error_and_nobody_elses(
    trouble: str, words: str
) -> None:
    plan = Trouble()
    async with served(Plain(plan)) as web, reached(web.url) as connection:
        other = asyncio.create_task(call(connection, wait=True))
        await web.until(lambda: plan.waiting == 1)
        with pytest.raises(RemoteError) as caught:
            await call(connection, trouble=trouble)
        assert words in caught.value.message
        assert "\n" not in caught.value.message
        plan.release.set()
        assert said(await other) == "echo"
        assert said(await call(connection)) == "echo"


async def test_a_server_that_goes_away_and_comes_back_is_called_again() -> None:
    port = free_port()

    async def stateless(method: str, message: dict[str, Any]) -> Any:
        return None

    async with served(Plain(stateless), port=port) as web:
        url = web.url
        connecting = reached(url)
        connection = await connecting.__aenter__()
        assert said(await call(connection)) == "echo"
    try:
        with pytest.raises(RemoteError, match=r"^the server cannot be reached"):
            await call(connection)
        async with served(Plain(stateless), port=port):
            assert said(await call(connection)) == "echo"
    finally:
        await connecting.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, b""), (400, b'{"error": "Bad Request: No valid session ID provided"}')],
)
async def test_a_server_that_was_started_again_is_lost(status: int, body: bytes) -> None:
    forgotten = False

    async def forget(
        method: str, message: dict[str, Any]
    ) -> tuple[int, dict[str, str], bytes] | None:
        return (status, {"content-type": "application/json"}, body) if forgotten else None

    async with served(Plain(forget)) as web, reached(web.url) as connection:
        assert said(await call(connection)) == "echo"
        forgotten = True
        with pytest.raises(RemoteError, match="does not know this connection any more"):
            await call(connection)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert "started again" in await connection.wait_lost()


async def test_a_deadline_holds_and_the_server_hears_of_it() -> None:
    plan = Trouble()
    plain = Plain(plan)
    async with served(plain) as web, reached(web.url) as connection:
        with pytest.raises(RemoteError, match=r"within 0.2 seconds; it may have had effects$"):
            await call(connection, seconds=0.2, wait=True)
        await web.until(
            lambda: "notifications/cancelled" in [each.get("method") for each in plain.messages]
        )
        plan.release.set()
        assert said(await call(connection)) == "echo"


async def test_a_server_that_minds_no_goodbye_is_left_within_its_bound() -> None:
    for_ever = asyncio.Event()

    async def hang(
        method: str, message: dict[str, Any]
    ) -> tuple[int, dict[str, str], bytes] | None:
        if method == "DELETE":
            await for_ever.wait()
        return None

    async with served(Plain(hang)) as web:
        async with reached(web.url) as connection:
            assert said(await call(connection)) == "echo"
        assert web.asked("DELETE") == 1
        for_ever.set()


async def test_a_start_that_is_cancelled_leaves_no_request_behind() -> None:
    for_ever = asyncio.Event()

    async def hang(
        method: str, message: dict[str, Any]
    ) -> tuple[int, dict[str, str], bytes] | None:
        await for_ever.wait()
        return None

    async def live(web: Web) -> None:
        async with reached(web.url):
            pytest.fail("it is connected")

    async with served(Plain(hang)) as web:
        before = asyncio.all_tasks()
        owner = asyncio.create_task(live(web))
        await web.until(lambda: len(web.requests) == 1)
        owner.cancel()
        await asyncio.sleep(0)
        owner.cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait({owner})
        assert owner.cancelled()
        for_ever.set()
        assert not {each for each in asyncio.all_tasks() - before if "connect" in repr(each)}


async def test_the_environments_proxy_is_not_asked_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with served(Plain()) as web, reached(web.url) as connection:
        assert said(await call(connection)) == "echo"


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_is_started_again_is_lost_or_needs_no_memory(era: Era) -> None:
    port = free_port()
    async with served(official_app(), port=port) as web:
        connecting = reached(web.url, era=era)
        connection = await connecting.__aenter__()
    try:
        async with served(official_app(), port=port):
            if era == "handshake":
                with pytest.raises(RemoteError):
                    await call(connection, "add", a=1, b=2)
                assert "started again" in await connection.wait_lost()
            else:
                assert (await call(connection, "add", a=1, b=2)).structured == {"sum": 3}
    finally:
        await connecting.__aexit__(None, None, None)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_token_that_no_header_can_hold_is_said_so_and_not_shown(transport: Any) -> None:
    headers = (("Authorization", "Bearer token-123\nX: y"),)
    async with served(Plain()) as web:
        with pytest.raises(RemoteError, match="hold what no header may") as caught:
            async with reached(web.url, headers=headers, transport=transport):
                pytest.fail("it is connected")
    assert "token-123" not in caught.value.message


async def test_arguments_that_name_a_session_are_no_sign_of_a_new_server() -> None:
    async def refuse(method: str, message: dict[str, Any]) -> Any:
        if message.get("method") != "tools/call":
            return None
        error = {"code": -32602, "message": "the session is missing"}
        body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return 400, {"content-type": "application/json"}, json.dumps(body).encode()

    async with served(Plain(refuse)) as web, reached(web.url) as connection:
        for _ in range(2):
            with pytest.raises(RemoteError, match="answered with an error: the session is miss"):
                await call(connection)


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.mcp.sdk.web.ANSWER_BYTES", 100_000)

    async def much(method: str, message: dict[str, Any]) -> Any:
        if message.get("method") != "tools/call":
            return None
        content = [{"type": "text", "text": "x" * 200_000}]
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}
        return 200, {"content-type": "application/json"}, json.dumps(answer).encode()

    async with served(Plain(much)) as web, reached(web.url) as connection:
        with pytest.raises(RemoteError, match="cannot be read"):
            await call(connection)
