"""Servers behind a url, by the SDK's transport and an HTTP client of ours.

Owns that one request that fails is that request's error alone: the SDK's client would end for
everybody. Owns what a status means, how long a goodbye may take, and how much an answer may hold.
Refuses to know what is asked; logs nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp_types import INVALID_PARAMS, ErrorData, JSONRPCError

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.lost import Lost
from treadle.mcp.sdk.events import open_events
from treadle.mcp.sdk.refusal import refusal, status_words, unreachable
from treadle.mcp.stdio import LINE_BYTES

# A host that does not take a connection within this time is not there.
CONNECT_SECONDS = 10.0

# What a server takes to note something that it need not answer; other requests wait behind it.
NOTICE_SECONDS = 5.0

# Whoever leaves says so, and waits no longer for somebody who may be gone.
GOODBYE_SECONDS = 1.0

# An answer is as long as it may be through pipes.
ANSWER_BYTES = LINE_BYTES

# What a server says of its refusal.
REFUSAL_BYTES = 64 * 1024

# Says that a server does not know the session any more, where it does not say 404.
_FORGOTTEN = (b"session", b"not initialized")

# Nothing was sent, and nothing else would be.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.LocalProtocolError)

_RESTARTED = "the server does not know this connection any more; it may have been started again"


class Client(httpx2.AsyncClient):
    """An HTTP client whose requests do not fail but are answered with what went wrong.

    Args:
        headers: what each request carries.
        lost: told when the server has forgotten us.
        trust_env: whether the environment's proxies are used.
        is_older: whether the transport is that of 2024, which knows no header for a session.
    """

    def __init__(
        self,
        *,
        headers: dict[str, str],
        lost: Lost,
        trust_env: bool,
        is_older: bool = False,
    ) -> None:
        super().__init__(
            # What cannot be unpacked, or grows without end when it is, is not asked for.
            headers={**headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            trust_env=trust_env,
        )
        self._lost = lost
        self._is_older = is_older
        self._listens = False

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, within what its kind may take."""
        seconds = _seconds(request)
        try:
            async with asyncio.timeout(seconds):
                response = await super().send(request, **options)
        except TimeoutError:
            why = refusal(f"the server did not answer within {seconds or 0:g} seconds")
            return _failed(request, 504, why)
        except httpx2.TransportError as error:
            return self._unreached(request, error)
        return await self._judge(request, response)

    def _unreached(self, request: httpx2.Request, error: httpx2.TransportError) -> httpx2.Response:
        if request.method == "GET":
            if self._listens:
                self._lost.because(unreachable(error))
            raise error
        is_refused = isinstance(error, _NOT_SENT)
        return _failed(request, 502, refusal(unreachable(error), final=is_refused))

    async def _judge(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return the response, or what stands for it where it is a refusal."""
        if response.status_code < 400:
            self._listens |= request.method == "GET" and response.status_code == 200
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            is_endless = response.headers.get("content-type", "").startswith("text/event-stream")
            response.stream = _Careful(response.stream, None if is_endless else ANSWER_BYTES)
            if response.headers.get("content-encoding", "identity") == "identity":
                return response
            await response.aclose()
            return _failed(request, 415, refusal("the server packs what it sends"))
        if request.method == "DELETE":
            return response
        body = await _beginning(response)
        why = _refused(response, body)
        if self._forgot(request, response.status_code, body, why.code):
            self._lost.because(_RESTARTED)
            why = refusal(_RESTARTED, final=True)
        if request.method == "GET":
            return httpx2.Response(response.status_code, request=request)
        return _failed(request, response.status_code, why)

    def _forgot(self, request: httpx2.Request, status: int, body: bytes, code: int) -> bool:
        if request.method == "GET":
            # Many servers offer nothing to listen to, and say so in this way.
            return status == 404 and self._listens
        if MCP_SESSION_ID not in request.headers:
            return status == 404 and self._is_older
        if status == 400 and code != INVALID_PARAMS:
            return any(sign in body.lower() for sign in _FORGOTTEN)
        return status == 404


class _Sent(msgspec.Struct):
    """What has to be known of a message that is sent."""

    id: int | str | None = None
    method: str = ""


class _Careful(httpx2.AsyncByteStream):
    """A body that is cut, rather than fails, where the connection ends or it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, most_bytes: int | None) -> None:
        self._stream = stream
        self._left = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                if self._left is not None:
                    self._left -= len(piece)
                    if self._left < 0:
                        return
                yield piece
        except httpx2.TransportError:
            return

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def open_url(declaration: ServerDeclaration, lost: Lost) -> AsyncIterator[tuple[Any, Any]]:
    """Speak with the server behind a url for as long as the block takes.

    Yields:
        What messages come from, and what they go to; see `gate.Gate`.
    """
    url = declaration.url or ""
    # Certificates are read for it, which takes a moment.
    async with await asyncio.to_thread(_client, declaration, lost) as client:
        if declaration.transport == "sse":
            async with open_events(client, url, lost, ANSWER_BYTES) as streams:
                yield streams
        else:
            async with streamable_http_client(
                url, http_client=client, max_sse_event_size=ANSWER_BYTES
            ) as streams:
                yield streams


def _client(declaration: ServerDeclaration, lost: Lost) -> Client:
    return Client(
        headers=dict(declaration.headers),
        lost=lost,
        trust_env=not _is_loopback(declaration.url or ""),
        is_older=declaration.transport == "sse",
    )


def _failed(request: httpx2.Request, status: int, why: ErrorData) -> httpx2.Response:
    """Return the response that has just this request fail."""
    error = JSONRPCError(jsonrpc="2.0", id=_sent(request).id, error=why)
    return httpx2.Response(
        status,
        request=request,
        content=error.model_dump_json(by_alias=True).encode(),
        headers={"content-type": "application/json"},
    )


def _is_loopback(url: str) -> bool:
    host = httpx2.URL(url).host
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _seconds(request: httpx2.Request) -> float | None:
    """Return how long the headers of a response may take; requests have deadlines of their own."""
    if request.method == "DELETE":
        return GOODBYE_SECONDS
    if request.method != "POST":
        return None
    sent = _sent(request)
    return None if sent.method and sent.id is not None else NOTICE_SECONDS


def _sent(request: httpx2.Request) -> _Sent:
    try:
        return msgspec.json.decode(request.content, type=_Sent)
    except (msgspec.MsgspecError, httpx2.RequestNotRead):
        return _Sent()


async def _beginning(response: httpx2.Response) -> bytes:
    """Return the beginning of a refusal's body, and be done with the rest."""
    body = b""
    try:
        async with asyncio.timeout(NOTICE_SECONDS):
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > REFUSAL_BYTES:
                    break
    except (TimeoutError, httpx2.HTTPError):
        pass
    finally:
        await response.aclose()
    return body[:REFUSAL_BYTES]


def _refused(response: httpx2.Response, body: bytes) -> ErrorData:
    """Return what the server says of its refusal, or what its status says."""
    status = response.status_code
    if status in (401, 403):
        return refusal(status_words(status), final=True)
    try:
        return JSONRPCError.model_validate_json(body, by_name=False).error
    except ValueError:
        return refusal(status_words(status))
