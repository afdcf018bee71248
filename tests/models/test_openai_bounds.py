"""An endpoint that never stops sending takes neither the memory nor the loop."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from treadle.errors import ModelError, ModelRefusedRequest, ModelStreamBroken
from treadle.models.openai import OpenAICompletion, client, stream
from treadle.turn.agent import Agent
from treadle.turn.env import Env

# Far more than anything here takes on a busy machine; a test that waits this long has failed.
PATIENCE_SECONDS = 30.0

# How long the loop is watched, and how much of the processor one pass may take: far below what
# all of a packed answer takes. Of the processor's time, for a busy machine adds none to that.
WATCHED_SECONDS = 3.0
STANDSTILL_SECONDS = 2.0

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def event(delta: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


@asynccontextmanager
async def endless(head: bytes, piece: bytes) -> AsyncIterator[str]:
    """Serve `head` and then `piece` for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)  # a peer that reads fast would never let anyone else run
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def failure(base_url: str, on_turn: Callable[[Env], object] = lambda _: None) -> ModelError:
    """Ask once; return the error that it ends with."""
    async with OpenAICompletion("m", base_url, "k") as completion:
        agent = Agent().run(completion).on("turn", lambda env, _: on_turn(env))
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(ModelError) as raised:
                await agent.start("Hi")
    return raised.value


@pytest.mark.parametrize(
    "piece",
    [
        event({"content": "word " * 100}),
        event({"reasoning_content": "hmm " * 100}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 500}}]}),
        b": still there\n\n" * 100,
        b"\n" * 1000,
        b"x" * 1000,
    ],
    ids=["text", "reasoning", "arguments", "comments", "line ends", "one line"],
)
async def test_an_answer_without_an_end_is_given_up(
    piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_ANSWER_BYTES", 1 << 20)
    envs: list[Env] = []
    async with endless(GOOD, piece) as base_url:
        error = await failure(base_url, envs.append)
    assert isinstance(error, ModelStreamBroken)
    assert "more than any answer holds" in error.message
    said = [message.text for message in envs[0].messages if message.role == "assistant"]
    assert said[:1] == ([error.data["partial"]] if b"content" in piece else [])
    assert len(error.data["partial"]) <= 1 << 20


async def test_a_packed_answer_lets_others_run_and_can_be_cancelled() -> None:
    head = GOOD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    async with (
        endless(head + gzip.compress(b"\n" * (64 << 20)), b"\0") as base_url,
        OpenAICompletion("m", base_url, "k") as completion,
    ):
        turn = asyncio.create_task(Agent().run(completion).start("Hi"))
        longest = 0.0
        end = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < end and not turn.done():
            used = time.thread_time()
            await asyncio.sleep(0.01)
            longest = max(longest, time.thread_time() - used)
        turn.cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises((asyncio.CancelledError, ModelError)):
                await turn
    assert longest < STANDSTILL_SECONDS


async def test_of_an_error_without_an_end_the_beginning_is_told() -> None:
    head = b"HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\n\r\n" + b"no such thing "
    async with endless(head, b"at all " * 1000) as base_url:
        error = await failure(base_url)
    assert isinstance(error, ModelRefusedRequest)
    assert "no such thing at all at all" in error.message
    assert len(error.message) < client.MAX_ERROR_BYTES
