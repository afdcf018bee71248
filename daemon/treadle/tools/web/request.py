"""One request: to an address that was checked, over a connection that can go nowhere else.

Owns resolving, checking, connecting and reading within bounds. No cookies, no credentials, no
proxy, no redirect: what a server says is handed to whoever asked. Importing this takes a moment,
so it is imported in a worker thread by what needs it.

The connection is pinned: the HTTP library is handed a backend that ignores the name it is given
and connects to the one address that was checked, while TLS and the header `Host` keep the name.
A second answer of DNS is never asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import httpcore2

from treadle.tools.web.addresses import address_of, is_public
from treadle.tools.web.body import Body, ContentType, Inflater
from treadle.tools.web.errors import WebError
from treadle.tools.web.network import Network
from treadle.tools.web.outgoing import Outgoing
from treadle.tools.web.url import WebUrl
from treadle.version import __version__

# Servers that are there accept within a second or two, also across the world.
CONNECT_SECONDS = 10.0
# A resolver that takes longer has lost the question.
RESOLVE_SECONDS = 10.0
# Of a name with many addresses these are tried; the others are down as well.
TRIED_ADDRESSES = 4

# Who asks, plainly: a site may want to keep us out.
USER_AGENT = f"treadle/{__version__}"

# All that a connection can do to us; whatever else is raised is a mistake of ours.
_TROUBLE = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `body` is empty where its type is none that can be read."""

    url: WebUrl
    status: int
    reason: str
    content_type: ContentType
    location: str
    body: Body


async def send(outgoing: Outgoing, network: Network) -> Answer:
    """Send one request and read its answer.

    Raises:
        WebError: it must not be sent, or was not answered.
    """
    addresses = await _addresses(outgoing, network)
    context = await asyncio.to_thread(_tls) if outgoing.url.scheme == "https" else None
    trouble: Exception | None = None
    for address in addresses[:TRIED_ADDRESSES]:
        try:
            return await _exchange(outgoing, _Pinned(network, address), context)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
            trouble = error
        except _TROUBLE as error:
            raise _broken(outgoing.url, error) from error
    raise WebError(
        f"There is no connection to {outgoing.url.authority}: {_why(trouble)}. Try again later, "
        "or go on without it."
    ) from trouble


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to one address, whatever name it is asked to connect to."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._network.connect(self._address, port, timeout)
        except OSError as error:
            raise httpcore2.ConnectError(error.strerror or str(error)) from error


async def _addresses(outgoing: Outgoing, network: Network) -> Sequence[str]:
    """Return the addresses of a URL's host, all of them checked.

    Raises:
        WebError: there is none, or one of them is not public.
    """
    host, port = outgoing.url.host, outgoing.url.port
    if address_of(host) is not None:
        addresses: Sequence[str] = [host]
    else:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                addresses = await network.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise WebError(f"The host {host} cannot be found: {_why(error)}.") from error
    if not addresses:
        raise WebError(f"The host {host} cannot be found: it has no address.")
    # One is enough to refuse all: who answers with both wants the other one to be taken.
    if not outgoing.anywhere and not all(map(is_public, addresses)):
        raise WebError(
            f"{host} stands for an address of a private network or of this machine, which is never "
            "fetched. Go on without it."
        )
    return addresses


async def _exchange(outgoing: Outgoing, backend: _Pinned, context: ssl.SSLContext | None) -> Answer:
    """Send the request over a connection of its own and read the answer.

    Raises:
        WebError: the answer is encoded in a way that was not asked for.
    """
    url = outgoing.url
    scheme, host = url.scheme.encode(), url.host.encode()
    origin = httpcore2.Origin(scheme, host, url.port)
    timeouts = {"connect": CONNECT_SECONDS}
    async with httpcore2.AsyncHTTPConnection(
        origin, ssl_context=context, network_backend=backend
    ) as connection:
        response = await connection.handle_async_request(
            httpcore2.Request(
                b"GET" if outgoing.json is None else b"POST",
                httpcore2.URL(scheme=scheme, host=host, port=url.port, target=url.target),
                headers=_headers(outgoing),
                content=outgoing.json,
                extensions={"timeout": timeouts},
            )
        )
        headers = _first_of_each(response.headers)
        content_type = ContentType.parse(headers.get("content-type", ""))
        redirects = 300 <= response.status < 400 and "location" in headers
        body = Body(b"", cut=False)
        if not redirects and content_type.may_be_text:
            body = await _read(response, headers.get("content-encoding", ""), outgoing.limit_bytes)
        reason = response.extensions.get("reason_phrase", b"").decode("latin-1")
        return Answer(
            url,
            response.status,
            reason if reason.isprintable() else "",
            content_type,
            headers["location"] if redirects else "",
            body,
        )


async def _read(response: httpcore2.Response, encoding: str, limit_bytes: int) -> Body:
    """Read a body until its end or the limit.

    Raises:
        WebError: it cannot be decompressed.
    """
    inflater = Inflater(encoding, limit_bytes)
    # Closed here and now: a generator that is left behind is closed by nobody in particular.
    async with contextlib.aclosing(response.aiter_stream()) as pieces:
        async for piece in pieces:
            if inflater.take(piece):
                break
    return inflater.body()


def _headers(outgoing: Outgoing) -> list[tuple[str, str]]:
    return [
        ("Host", outgoing.url.authority),
        ("User-Agent", USER_AGENT),
        ("Accept-Encoding", "gzip, deflate"),
        ("Connection", "close"),
        *outgoing.headers,
        *([] if outgoing.json is None else [("Content-Length", str(len(outgoing.json)))]),
    ]


def _first_of_each(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name in lower case; of equal ones the first counts."""
    found: dict[str, str] = {}
    for name, value in headers:
        # Some servers write a Location in UTF-8, which no standard allows and browsers take.
        found.setdefault(name.decode("latin-1").lower(), value.decode(errors="replace"))
    return found


@functools.cache
def _tls() -> ssl.SSLContext:
    """Load the machine's certificates; some 20 ms, so not on the loop."""
    return httpcore2.default_ssl_context()


def _broken(url: WebUrl, error: Exception) -> WebError:
    return WebError(
        f"The answer of {url.authority} broke off: {_why(error)}. Try again, or go on without it."
    )


def _why(error: Exception | None) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error or "").rstrip(".") or "it did not answer in time"
