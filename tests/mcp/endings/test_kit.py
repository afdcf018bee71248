"""The misbehaving server does what it is told to, and its processes are heard of."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.mcp.home import Home, open_home
from support.process import posix_only
from support.waiting import PATIENCE_SECONDS

pytestmark = posix_only

# More than the largest line that it writes.
LIMIT_BYTES = 32 << 20

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test"}}


class Peer:
    """A client of one kit that reads and writes lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.process = process
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.last_id = 0

    def send(self, method: str, **params: Any) -> None:
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.stdin.write(json.dumps(message).encode() + b"\n")

    async def line(self) -> bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.stdout.readline()

    async def ask(self, method: str, **params: Any) -> Any:
        self.send(method, **params)
        reply = json.loads(await self.line())
        assert reply["id"] == self.last_id
        return reply["result"]

    async def begin(self) -> None:
        await self.ask("initialize", **INITIALIZE)
        await self.ask("tools/list")

    async def echo(self, text: str = "hello") -> Any:
        return await self.ask("tools/call", name="echo", arguments={"text": text})

    async def end(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def kit(home: Home, *misdeeds: str) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        *home.command("kit", *misdeeds), stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LIMIT_BYTES
    )
    try:
        await home.until(lambda: bool(home.lines) and all(line.pid for line in home.lines))
        yield Peer(process)
    finally:
        await home.kill()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.wait()
        # asyncio has no public way to let go of a pipe in which something is left to read.
        process._transport.close()  # type: ignore[attr-defined]  # as said above


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    async with open_home() as home:
        yield home


async def test_well_behaved_it_introduces_itself_echoes_and_ends_with_its_input(home: Home) -> None:
    async with kit(home) as peer:
        said = await peer.ask("initialize", **INITIALIZE)
        assert (said["protocolVersion"], said["serverInfo"]["name"]) == ("2025-06-18", "kit")
        tools = (await peer.ask("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["echo", "wait"]
        assert await peer.echo() == {"content": [{"type": "text", "text": "hello"}]}
        peer.stdin.close()
        assert await peer.end() == 0
        (line,) = home.lines
        await home.until(lambda: not line.is_alive)
        assert line.news == ["initialize", "tools/list", "tools/call echo", "eof"]
        assert line.pid == peer.process.pid


@pytest.mark.parametrize("kin", ["grandchild", "deaf-grandchild", "runaway", "orphan"])
async def test_a_forked_process_is_heard_of_and_outlives_its_server(home: Home, kin: str) -> None:
    async with kit(home, kin) as peer:
        server, forked = home.lines
        assert (server.name, forked.name) == ("kit", f"kit/{kin}")
        peer.stdin.close()
        await home.until(lambda: not server.is_alive)
        assert forked.is_alive
        if kin != "orphan":
            assert forked.pid is not None
            os.kill(forked.pid, signal.SIGTERM if kin == "grandchild" else signal.SIGKILL)
        # Nobody else holds the pipe.
        assert await peer.line() == b""


async def test_who_ignores_its_end_and_term_is_killed(home: Home) -> None:
    async with kit(home, "ignore-eof", "ignore-term") as peer:
        peer.stdin.close()
        await home.until(lambda: home.heard("kit", "eof"))
        peer.process.terminate()
        assert home.lines[0].is_alive
        peer.process.kill()
        await home.until(lambda: not home.lines[0].is_alive)


async def test_who_lives_for_ever_ends_with_its_home() -> None:
    home = Home()
    taken: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda _, writer: taken.set_result(writer), "127.0.0.1", 0)
    async with server:
        home.port = server.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *home.command("kit", "never-read", "ignore-term"), stdin=PIPE, stdout=PIPE
        )
        writer = await taken
        writer.write(b".")
        writer.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 9


@pytest.mark.parametrize(
    ("misdeed", "code"),
    [("die-on-call=2", 4), ("die-in-answer", 6), ("die-idle", 5), ("die-at-start", 3)],
)
async def test_it_dies_when_it_is_told_to(home: Home, misdeed: str, code: int) -> None:
    async with kit(home, misdeed) as peer:
        for method in ("initialize", "tools/list", "tools/call", "tools/call"):
            peer.send(method, name="echo", **INITIALIZE)
        with contextlib.suppress(ConnectionError):
            await peer.stdin.drain()
        assert await peer.end() == code
        await home.until(lambda: not home.lines[0].is_alive)


@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
async def test_it_is_silent_where_it_is_told_to_be(home: Home, method: str) -> None:
    misdeed = f"silent-{method.partition('/')[2] or method}"
    async with kit(home, misdeed) as peer:
        peer.send(method, name="echo", **INITIALIZE)
        assert await peer.ask("ping") == {}


async def test_a_frozen_server_ends_only_when_it_is_killed(home: Home) -> None:
    async with kit(home, "freeze-on-call") as peer:
        await peer.begin()
        peer.send("tools/call", name="echo")
        await home.until(lambda: home.heard("kit", "tools/call echo"))
        peer.process.send_signal(signal.SIGTERM)
        assert home.lines[0].is_alive
        peer.process.kill()
        await home.until(lambda: not home.lines[0].is_alive)


async def test_tools_change_with_each_call(home: Home) -> None:
    async with kit(home, "change-tools") as peer:
        await peer.begin()
        await peer.echo()
        assert json.loads(await peer.line())["method"] == "notifications/tools/list_changed"
        tools = (await peer.ask("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["echo", "wait", "new1"]


async def test_a_huge_result_is_one_line_of_20_mb(home: Home) -> None:
    async with kit(home, "huge-result") as peer:
        await peer.begin()
        assert len((await peer.echo())["content"][0]["text"]) == 20_000_000


async def test_garbage_stands_before_each_message(home: Home) -> None:
    async with kit(home, "garbage") as peer:
        peer.send("ping")
        lines = [await peer.line() for _ in range(9)]
        assert json.loads(lines[-1]) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert lines[1].startswith(b"npm WARN")


async def test_it_answers_twice_and_what_nobody_asked(home: Home) -> None:
    async with kit(home, "answer-twice") as peer:
        peer.send("ping")
        ids = [json.loads(await peer.line())["id"] for _ in range(4)]
        assert ids == [1, 1, 987_654, "nobody's"]


@pytest.mark.parametrize("misdeed", ["close-stdin", "close-stdout"])
async def test_it_closes_one_end_and_lives_on(home: Home, misdeed: str) -> None:
    async with kit(home, misdeed) as peer:
        await peer.begin()
        if misdeed == "close-stdout":
            assert await peer.line() == b""
        else:
            with pytest.raises(ConnectionError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while True:
                        peer.send("ping")
                        await peer.stdin.drain()
                        await asyncio.sleep(0)
        assert home.lines[0].is_alive


@pytest.mark.parametrize("what", ["stderr", "stdout", "line", "notifications"])
async def test_it_floods(home: Home, what: str) -> None:
    async with kit(home, f"flood-{what}=0") as peer:
        pipe = peer.stderr if what == "stderr" else peer.stdout
        async with asyncio.timeout(PATIENCE_SECONDS):
            flood = await pipe.readexactly(4 << 20)
        assert (b"\n" in flood) == (what != "line")
