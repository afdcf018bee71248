"""A stock client of another house, pytest-lsp's on pygls, over the daemon's standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient

from support.model_server import Answer, ModelServer, memory
from support.person import by_text, on, pair

# The client waits for ever by itself.
PATIENCE_SECONDS = 20.0


class Client:
    """What the tests need of the stock client: requests with bounds, and notifications in order."""

    def __init__(self, client: LanguageClient) -> None:
        self.stock = client
        self.introduction: types.InitializeResult
        self.heard: list[tuple[str, Any]] = []
        self._changed = asyncio.Event()

    def listen(self, *methods: str) -> None:
        """Keep the notifications of some methods; register before the server can send any."""
        for method in methods:
            self.stock.feature(method)(lambda params, method=method: self._hear(method, params))

    def _hear(self, method: str, params: Any) -> None:
        self.heard.append((method, params))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was heard makes the condition true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def request(self, method: str, params: dict[str, Any], msg_id: str | None = None) -> Any:
        """Ask; results are objects that pygls makes of whatever JSON comes."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.stock.protocol.send_request_async(method, params, msg_id)

    def heard_of(self, method: str) -> list[Any]:
        """Return the params of one notification."""
        return [params for name, params in self.heard if name == method]


@contextlib.asynccontextmanager
async def _client(server: ModelServer, folder: Path) -> AsyncIterator[Client]:
    """Start a daemon with a stock client, said hello to; both are gone at the end."""
    config = ClientServerConfig(
        server_command=[sys.executable, "-m", "treadle", "serve"],
        # It replaces the environment, so all of ours goes along.
        server_env={**os.environ, **on(server)},
    )
    stock = await config.start()
    assert isinstance(stock, LanguageClient)
    client = Client(stock)
    client.listen(
        "session/state",
        "session/delta",
        "session/toolCall",
        "session/toolResult",
        "session/done",
    )
    try:
        client.introduction = await stock.initialize_session(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(), root_uri=folder.as_uri()
            )
        )
        yield client
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stock.shutdown_session()
        assert stock._server is not None
        assert stock._server.returncode == 0
        assert stock.error is None
    finally:
        if stock._server is not None and stock._server.returncode is None:
            stock._server.kill()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stock.stop()


async def test_a_stock_client_says_hello_and_hears_what_there_is(tmp_path: Path) -> None:
    async with ModelServer(memory) as server, _client(server, tmp_path) as client:
        listed = await client.request("agent/list", {})

        assert client.introduction.server_info is not None
        assert client.introduction.server_info.name == "treadle"
        treadle = client.introduction.capabilities.experimental["treadle"]  # type: ignore[index]
        assert treadle["protocolVersion"] == 1
        assert "session/prompt" in treadle["methods"]
        assert "session/done" in treadle["notifications"]
        assert treadle["pid"] == client.stock._server.pid  # type: ignore[union-attr]
        assert "assistant" in [agent.name for agent in listed.agents]


async def test_a_stock_client_s_agent_remembers_from_one_daemon_to_the_next(
    tmp_path: Path,
) -> None:
    async with ModelServer(memory) as server:
        async with _client(server, tmp_path) as first:
            await first.request("session/prompt", pair("lsp", prompt="My name is Mac."))
        async with _client(server, tmp_path) as second:
            answer = await second.request(
                "session/prompt", pair("lsp", prompt="What is my name?", _meta={"jsonrpc": "2.0"})
            )
            read = await second.request("session/read", pair("lsp", limit=2))

    assert (answer.text, answer.turn, answer.stopReason) == ("Your name is Mac.", 2, "end_turn")
    assert [message.content for message in read.messages] == [
        "My name is Mac.",
        "Your name is Mac.",
    ]
    assert read.nextCursor == "2"


async def test_a_stock_client_hears_a_turn_in_order(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("pelican\n", encoding="utf-8")
    calling = Answer(calls=[("read", {"path": "notes.txt"})])
    server = ModelServer(
        lambda request: Answer("Done.") if request["messages"][-1]["role"] == "tool" else calling
    )
    async with server, _client(server, tmp_path) as client:
        answer = await client.request("session/prompt", pair("t", prompt="Read it"))
        heard = list(client.heard)

    assert answer.text == "Done."
    assert [method for method, _ in heard if method != "session/state"] == [
        "session/toolCall",
        "session/toolResult",
        "session/delta",
        "session/done",
    ]
    assert [params.seq for _, params in heard] == list(range(1, len(heard) + 1))
    [result] = client.heard_of("session/toolResult")
    assert "pelican" in result.content


async def test_a_stock_client_cancels_a_request(tmp_path: Path) -> None:
    slow = Answer("One two three", pause_after=2)
    async with (
        ModelServer(by_text({"Slow": slow})) as server,
        _client(server, tmp_path) as client,
    ):
        running = asyncio.create_task(
            client.request("session/prompt", pair("c", prompt="Slow"), msg_id="the-prompt")
        )
        await client.until(lambda: len(client.heard_of("session/delta")) == 2)
        client.stock.cancel_request(types.CancelParams(id="the-prompt"))
        with pytest.raises(JsonRpcException) as cancelled:
            await running
        assert cancelled.value.code == -32800
        answer = await client.request("session/prompt", pair("c", prompt="Still there?"))
        assert answer.text == "Fine."


async def test_a_stock_client_is_told_what_went_wrong(tmp_path: Path) -> None:
    async with ModelServer(by_text({})) as server, _client(server, tmp_path) as client:
        with pytest.raises(JsonRpcException) as unknown:
            await client.request("session/prompt", pair("x", "nobody", prompt="Hello"))
        with pytest.raises(JsonRpcException) as no_method:
            await client.request("session/prompts", pair("x"))
        with pytest.raises(JsonRpcException) as no_prompt:
            await client.request("session/prompt", pair("x"))

    assert unknown.value.code == -32803
    assert unknown.value.data["reason"] == "unknown_agent"
    assert no_method.value.code == -32601
    assert (no_prompt.value.code, no_prompt.value.data["path"]) == (-32602, "prompt")


async def test_a_stock_client_works_in_several_sessions_at_once(tmp_path: Path) -> None:
    async with ModelServer(memory) as server, _client(server, tmp_path) as client:
        answers = await asyncio.gather(
            *(
                client.request("session/prompt", pair(f"s{n}", prompt=f"My name is Mac{n}."))
                for n in range(5)
            )
        )
        listed = await client.request("session/list", {})

    assert [answer.text for answer in answers] == [f"Your name is Mac{n}." for n in range(5)]
    assert sorted(session.instance for session in listed.sessions) == [f"s{n}" for n in range(5)]
