"""The transport of 2024: what a server says are events of one stream, what we say are requests.

Ours, because the SDK's takes no event of more than a megabyte, and ends for everybody when one
request fails. Owns where requests go: never to another origin than the stream's, for they carry
the person's token. Refuses to know what is asked, and why a request failed: see `web`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx2

# Private, and the SDK's own guard against being sent elsewhere with the person's token.
from mcp.shared._httpx_utils import request_within_origin, sse_within_origin
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest

from treadle.mcp.lost import Lost
from treadle.mcp.remote import RemoteError
from treadle.mcp.sdk import messages
from treadle.mcp.sdk.refusal import refusal, status_words, unreachable


class Requests:
    """Where messages for the server go.

    Args:
        client: its requests do not fail but are answered with what went wrong.
        url: of the stream.
    """

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client = client
        self._url = httpx2.URL(url)
        self._address: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()

    def go_to(self, address: str) -> None:
        """Send everything to an address from now on.

        Raises:
            RemoteError: it is of another origin.
        """
        to = self._url.join(address)
        if (to.scheme, to.host, to.port) != (self._url.scheme, self._url.host, self._url.port):
            raise RemoteError(f"the server sends us to another host, {to.host}")
        if not self._address.done():
            self._address.set_result(to)

    async def send(self, item: SessionMessage) -> None:
        """Send a message, once the server has said where to.

        Raises:
            MCPError: it is a request, and it was refused.
        """
        address = await asyncio.shield(self._address)
        response = await request_within_origin(
            self._client,
            "POST",
            address,
            content=messages.encode(item),
            headers={"content-type": "application/json"},
        )
        # Nobody waits for what becomes of anything else.
        if response.status_code >= 300 and isinstance(item.message, JSONRPCRequest):
            raise MCPError.from_error_data(_why(response))


@asynccontextmanager
async def open_events(
    client: httpx2.AsyncClient, url: str, lost: Lost, most_bytes: int
) -> AsyncIterator[tuple[AsyncIterator[SessionMessage], Requests]]:
    """Open the stream for as long as the block takes.

    Args:
        client: see `Requests`.
        url: of the stream.
        lost: told why the stream ended, where that is known.
        most_bytes: how large an event may be.

    Raises:
        RemoteError: the server opens none.
    """
    requests = Requests(client, url)
    async with sse_within_origin(client, url, max_event_size=most_bytes) as events:
        if events.response.status_code != 200:
            raise RemoteError(status_words(events.response.status_code))
        async with aclosing(_messages(events, requests, lost)) as incoming:
            yield incoming, requests


async def _messages(
    events: httpx2.EventSource, requests: Requests, lost: Lost
) -> AsyncGenerator[SessionMessage, None]:
    try:
        async for event in events:
            if event.event == "endpoint":
                requests.go_to(event.data)
            elif event.event == "message" and event.data:
                message = messages.read(event.data.encode())
                if message is not None:
                    yield message
    except RemoteError as error:
        lost.because(error.message)
    except httpx2.HTTPError as error:
        lost.because(unreachable(error))


def _why(response: httpx2.Response) -> ErrorData:
    try:
        return JSONRPCError.model_validate_json(response.content, by_name=False).error
    except ValueError:
        return refusal(status_words(response.status_code))
