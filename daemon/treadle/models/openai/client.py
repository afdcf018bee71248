"""The way to an endpoint: the library's client, opened in a worker thread at first use.

Owns time-outs and what of the environment reaches the library. Refuses to know what is sent.

The library reads variables of its own (OPENAI_BASE_URL, OPENAI_ORG_ID, OPENAI_PROJECT_ID,
OPENAI_ADMIN_KEY, OPENAI_CUSTOM_HEADERS). None of them has a say here: an agent's file would
not tell where its words go, and a header meant for one endpoint would be sent to another.
What the arguments name is all there is; proxies and certificates are the machine's as ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from treadle.errors import ConfigurationError
from treadle.models.spec import DEFAULT_BASE_URL, is_endpoint

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

# A machine that is there accepts a connection within a second or two, also across the world.
CONNECT_TIMEOUT_SECONDS = 10.0

# Closing sends a few bytes at most; a peer that does not take them is left to the system.
CLOSE_SECONDS = 2.0

# The library insists on a key and sends it; local servers that need none ignore it.
NO_KEY = "none"

# The text of an error has a few hundred bytes; of one that never ends this much is read.
MAX_ERROR_BYTES = 64 << 10

# Names of this machine, which no proxy can reach for us.
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Endpoint:
    """One endpoint and its client, shared by every completion that talks to it.

    A client's connections belong to the event loop that opened them; a script that calls
    `asyncio.run` more than once gets a new client each time.

    Args:
        base_url: as for `open_client`, and so are the others; none is looked at before use.
        api_key: its key.
        timeout_seconds: the longest silence.
    """

    def __init__(self, base_url: str | None, api_key: str, timeout_seconds: float) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    async def client(self) -> AsyncOpenAI:
        """Return the client, opened by whoever asks first.

        Raises:
            ConfigurationError: the base URL or the key can never work.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client, self._opening = loop, None, asyncio.Lock()
        async with self._opening:
            if self._client is None:
                self._client = await open_client(
                    self._base_url, self._api_key, self._timeout_seconds
                )
            return self._client

    async def close(self) -> None:
        """Close the connections; a later `client()` opens anew."""
        client, self._client = self._client, None
        if client is None or self._loop is not asyncio.get_running_loop():
            return
        # Beyond the bound the sockets go with their transports; there is nobody left to tell.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await client.close()


async def open_client(base_url: str | None, api_key: str, timeout_seconds: float) -> AsyncOpenAI:
    """Make a client; nothing is sent yet.

    Args:
        base_url: the endpoint, up to and including its version (`http://localhost:8080/v1`).
        api_key: the key; empty for a server that needs none.
        timeout_seconds: the longest silence before or within an answer.

    Raises:
        ConfigurationError: the base URL or the key can never work.
    """
    url = (base_url or DEFAULT_BASE_URL).strip()
    _require_url(url)
    _require_header_text(api_key)
    return await asyncio.to_thread(_build, url, api_key or NO_KEY, timeout_seconds)


def shown_url(url: str) -> str:
    """Return the URL as an error may show it: without credentials and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def _build(url: str, api_key: str, timeout_seconds: float) -> AsyncOpenAI:
    """Import the library and build the client; 400 ms the first time, so not on the loop."""
    import anyio
    import httpx2
    from openai import AsyncOpenAI

    # The transport's backend is imported by its first use: better here than in the first turn.
    anyio.run(anyio.sleep, 0)
    parts = urlsplit(url)
    url = parts._replace(query="", fragment="").geturl()
    timeout = httpx2.Timeout(timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS)
    client = AsyncOpenAI(
        base_url=url,
        api_key=api_key,
        admin_api_key="",  # an empty one keeps OPENAI_ADMIN_KEY out
        default_query=dict(parse_qsl(parts.query)),  # some endpoints want their version there
        timeout=timeout,
        max_retries=0,  # the library would wait without a word; a person must see that
        http_client=_http_client(url, timeout),
    )
    client.organization = client.project = None
    # The library offers no way to leave OPENAI_CUSTOM_HEADERS out; a test watches this one.
    client._custom_headers = {}
    client._ambient_authorizations = frozenset()
    return client


def _http_client(url: str, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    from openai import DefaultAsyncHttpx2Client

    on_this_machine = urlsplit(url).hostname in _LOOPBACK
    return DefaultAsyncHttpx2Client(
        base_url=url,
        timeout=timeout,
        trust_env=not on_this_machine,
        event_hooks={"response": [_bound_error]},
    )


async def _bound_error(response: httpx2.Response) -> None:
    """Let the library, which reads an error's body whole, find only the beginning of a long one."""
    if response.is_error:
        import httpx2

        assert isinstance(response.stream, httpx2.AsyncByteStream), "it came by an async client"
        response.stream = _beginning(response.stream)


def _beginning(stream: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    import httpx2

    class Beginning(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = MAX_ERROR_BYTES
            async for piece in stream:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await stream.aclose()

    return Beginning()


def _require_url(url: str) -> None:
    if not is_endpoint(url):
        raise ConfigurationError(
            "the model's base_url is no http or https URL; "
            "write it like https://api.example.com/v1 or http://localhost:8080/v1"
        )


def _require_header_text(api_key: str) -> None:
    if not (api_key.isascii() and api_key.isprintable()) or api_key != api_key.strip():
        raise ConfigurationError(
            "the model's API key holds a space at an end, a line end or another character "
            "that no request can carry; copy it again"
        )
