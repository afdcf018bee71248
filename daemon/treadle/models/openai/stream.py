"""One request and its answer as it streams: bytes out, light chunks in.

Owns the connection from the request to the stream's last byte. Refuses to know what becomes
of a chunk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import ModelStreamBroken
from treadle.models.openai.client import MAX_ERROR_BYTES
from treadle.models.openai.errors import Place, from_library, from_stream, stream_broken
from treadle.models.openai.sse import EventReader
from treadle.thread.message import Usage, decode_json

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)

# A token costs some 300 bytes of the stream, and no model says 200,000 of them at once. A server
# that sends more will never end, and keeping it would take all of the memory.
MAX_ANSWER_BYTES = 64 << 20

# What was packed comes out of the transport piece by piece without ever suspending; after this
# much, some 50 ms of work at worst, others have their turn, a cancel among them.
BREATH_BYTES = 256 << 10

# After the end of the answer only usage and the end mark are to come, in the same breath.
# A server that stays silent instead has still answered.
TAIL_SECONDS = 5.0

# After the end mark comes the end of the body; reading it lets the connection be used again.
DRAIN_SECONDS = 0.5


class FunctionDelta(msgspec.Struct, gc=False):
    """A piece of a call's name and arguments; a few servers send arguments as an object."""

    name: str | None = None
    arguments: Any = None


class CallDelta(msgspec.Struct, gc=False):
    """A piece of a call. Servers differ: `index`, `id` or both may be missing."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(msgspec.Struct, gc=False):
    """A piece of the answer; reasoning has two names, by the server."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None


class Choice(msgspec.Struct, gc=False):
    """The one choice that a request asks for."""

    delta: Delta | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    """One event of the stream; `choices` may be missing, null or empty."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


async def stream_chat(
    client: AsyncOpenAI, body: bytes, *, model: str
) -> AsyncGenerator[Chunk, None]:
    """Post a request and yield its answer's chunks.

    Whoever stops early closes the generator (`contextlib.aclosing`), which closes the socket;
    a cancel does so by itself.

    Args:
        client: from `open_client`.
        body: the request's JSON, `stream` included.
        model: the model's name, for errors.

    Raises:
        ModelError: one of `treadle.errors`, and nothing else, by `errors.py`.
    """
    place = Place.of(client, model)
    answer = _Answer(await _post(client, body, place), place)
    try:
        while not answer.ended:
            for data in await answer.events():
                yield answer.chunk(data)
        await answer.drain()
        answer.require_complete()
    finally:
        await answer.close()


def read_usage(plain: dict[str, Any]) -> Usage:
    """Read a chunk's `usage`, whatever of it the server counts."""

    def count(members: Any, *names: str) -> int:
        found = [members.get(name) for name in names] if isinstance(members, dict) else []
        return next((int(n) for n in found if isinstance(n, int | float) and n > 0), 0)

    return Usage(
        input_tokens=count(plain, "prompt_tokens"),
        output_tokens=count(plain, "completion_tokens"),
        cached_tokens=count(plain.get("prompt_tokens_details"), "cached_tokens")
        or count(plain, "prompt_cache_hit_tokens"),  # DeepSeek's name for it
        reasoning_tokens=count(plain.get("completion_tokens_details"), "reasoning_tokens"),
    )


async def _post(client: AsyncOpenAI, body: bytes, place: Place) -> httpx2.Response:
    """Send the request; return once the head of a good answer is there.

    A server may close a connection that was kept open in the very moment it is used again, and
    then it has seen no request: that one is sent once more.
    """
    # No chain: a library's error may quote a header or an answer that holds the key.
    try:
        return await _send(client, body)
    except Exception as error:
        if not _was_hung_up_on(error):
            raise from_library(error, place) from None
    try:
        return await _send(client, body)
    except Exception as error:
        raise from_library(error, place) from None


async def _send(client: AsyncOpenAI, body: bytes) -> httpx2.Response:
    import httpx2
    from openai import AsyncStream

    return await client.post(  # type: ignore[return-value] # cast_to wins over stream_cls
        "/chat/completions",
        cast_to=httpx2.Response,
        content=body,
        options={"headers": {"Accept": "text/event-stream"}},
        stream=True,
        stream_cls=AsyncStream[Any],
    )


def _was_hung_up_on(error: Exception) -> bool:
    """Tell whether a connection ended before a byte of the answer had come."""
    import httpx2

    cause = error.__cause__
    return isinstance(cause, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError)


class _Answer:
    """The body of one response, as events."""

    def __init__(self, response: httpx2.Response, place: Place) -> None:
        self.ended = False
        self._response = response
        self._place = place
        self._pieces = response.aiter_bytes()
        self._reader = EventReader()
        self._bytes = 0
        self._breath_at = BREATH_BYTES
        self._started = False  # a chunk has come
        self._head = b""  # what came before: an error, where a server answers 200 to one
        self._tail_ends: float | None = None  # set once the reason it finished has come

    async def events(self) -> list[bytes]:
        """Wait for the next bytes; return the data of the events that they complete.

        Raises:
            ModelError: the connection is lost, or there is no end to what comes.
        """
        piece = await self._next()
        self.ended = not piece
        if not self._started and len(self._head) < MAX_ERROR_BYTES:
            self._head += piece
        self._bytes += len(piece)
        if self._bytes >= self._breath_at:
            self._breath_at = self._bytes + BREATH_BYTES
            await asyncio.sleep(0)
        if self._bytes > MAX_ANSWER_BYTES:
            raise stream_broken(self._place, "sent more than any answer holds, and no end of it")
        events = self._reader.feed(piece) if piece else self._reader.finish()
        for position, data in enumerate(events):
            if data.strip() == b"[DONE]":
                self.ended = True
                return events[:position]
        return events

    def chunk(self, data: bytes) -> Chunk:
        """Decode one event.

        Raises:
            ModelError: it cannot be read, or it is an error.
        """
        try:
            chunk = _decode(data, self._place)
        except ModelStreamBroken:
            self._require_no_error(data)  # one that is no object
            raise
        if chunk.error or not (chunk.choices or chunk.usage):
            self._require_no_error(data)
        self._started = True
        if chunk.choices and chunk.choices[0].finish_reason and self._tail_ends is None:
            self._tail_ends = asyncio.get_running_loop().time() + TAIL_SECONDS
        return chunk

    async def drain(self) -> None:
        """Read what follows the end mark, so that the connection can be used again."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in self._pieces:
                    pass
        except Exception:
            logger.debug("%s: the connection is lost after its answer", self._place)

    def require_complete(self) -> None:
        """Raise `ModelStreamBroken` unless the answer said why it finished."""
        if self._tail_ends is not None:
            return
        if self._started:
            raise stream_broken(self._place, "ended its answer without saying that it is complete")
        self._require_no_error(self._head)
        kind = self._response.headers.get("content-type", "of no named type")
        raise stream_broken(
            self._place,
            f"answered without a single event ({kind}); is base_url right, with its /v1?",
        )

    async def close(self) -> None:
        """Close the socket, unless the body was read to its end."""
        await self._response.aclose()

    def _require_no_error(self, data: bytes) -> None:
        """Raise the error that data is; some servers send it without an `error`."""
        try:
            event = decode_json(data)
        except (msgspec.DecodeError, RecursionError):
            return
        # Google's are lists of one.
        event = event[0] if isinstance(event, list) and event else event
        if isinstance(event, dict) and (
            event.get("error") or "error" in (event.get("object"), event.get("type"))
        ):
            raise from_stream(event, self._place)

    async def _next(self) -> bytes:
        """Return the next bytes; none at the end of the body, or when a tail does not come."""
        try:
            if self._tail_ends is None:  # the way of nearly every piece, so nothing is set up
                return await anext(self._pieces, b"")
            async with asyncio.timeout_at(self._tail_ends):
                return await anext(self._pieces, b"")
        except Exception as error:
            # Whatever a transport raises here, the connection is lost; see `_post` for the chain.
            if self._tail_ends is not None:
                return b""
            raise from_library(error, self._place, started=self._started) from None


_decoder = msgspec.json.Decoder(Chunk)


def _decode(data: bytes, place: Place) -> Chunk:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    # Lone surrogate escapes and numbers as text are valid JSON that the fast decoder refuses.
    try:
        return msgspec.convert(decode_json(data), Chunk, strict=False)
    except (msgspec.DecodeError, RecursionError):
        raise stream_broken(place, "sent a chunk that cannot be read") from None
