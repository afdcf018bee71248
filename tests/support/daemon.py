"""A real daemon in a process of its own, driven through its pipes, byte by byte if need be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.waiting import PATIENCE_SECONDS, Waitable

SERVE = (sys.executable, "-m", "treadle", "serve")


def serving_after(folder: Path, *lines: str) -> tuple[str, str]:
    """Make a program that is `treadle serve` after some lines of Python, which may break it."""
    path = folder / "driver.py"
    first = "from treadle.cli.main import main"
    path.write_text("\n".join([first, *lines, "raise SystemExit(main(['serve']))"]))
    return sys.executable, str(path)


class RpcError(Exception):
    """A request was answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']} {error['message']} {error.get('data')}")
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data", {})
        self.reason: str | None = self.data.get("reason")


def frame(message: object) -> bytes:
    """Frame a message as an editor would."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Daemon(Waitable):
    """A client of one `treadle serve`.

    Everything the daemon writes is read at once: replies settle their requests, notifications
    gather in `events`, its own requests in `asked`, replies to nobody in `strays`. A byte that
    is no frame fails the reader, and with it whoever waits.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__()
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self.events: list[dict[str, Any]] = []
        self.strays: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []  # requests of the daemon's
        self.answers: dict[str, Callable[[Any], object]] = {}  # how those are answered, by method
        self.log: list[dict[str, Any]] = []  # every message, in the order it was read
        self.patience_seconds = PATIENCE_SECONDS  # for the reply to a request
        self.reading = asyncio.Event()
        self.reading.set()
        self._waiting: dict[Any, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._reader = asyncio.create_task(self._read(process.stdout))

    async def initialize(self, **params: Any) -> Any:
        """Say hello; return the result."""
        return await self.request("initialize", {"capabilities": {}, **params})

    async def request(self, method: str, params: object = None) -> Any:
        """Send a request and return its result, within a bound, or raise RpcError."""
        async with asyncio.timeout(self.patience_seconds):
            return await self.ask(method, params)

    def ask(self, method: str, params: object = None) -> asyncio.Future[Any]:
        """Send a request; the future has its result or its RpcError, and its `request_id`."""
        self._last_id += 1
        answer = self.expect(self._last_id)
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return answer

    def expect(self, request_id: Any) -> asyncio.Future[Any]:
        """Return the future of the reply to a request that is sent by hand."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        late = loop.call_later(self.patience_seconds, _give_up, answer, request_id)
        answer.add_done_callback(lambda _: late.cancel())
        answer.request_id = request_id  # type: ignore[attr-defined]  # for $/cancelRequest
        self._waiting[request_id] = answer
        return answer

    def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else {**message, "params": params})

    def send(self, message: object) -> None:
        """Send one message, framed."""
        self.stdin.write(frame(message))

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.stdin.write(data)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.stdin.drain()

    async def still_answers(self) -> None:
        """Prove that the connection lives, and that everything sent before was answered."""
        listed = await self.request("session/list")
        assert listed == {"sessions": []}, listed

    async def stray(self) -> dict[str, Any]:
        """Wait for the next reply that answers none of our requests, and take it."""
        await self.until(lambda: bool(self.strays))
        return self.strays.pop(0)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, within a bound, until what was read makes the condition true."""
        await super().until(lambda: condition() or self._reader.done())
        if not condition():
            self._reader.result()
            raise EOFError("the daemon has ended its output")

    def of(self, method: str, instance: str | None = None) -> list[dict[str, Any]]:
        """Return the params of the notifications of one method, and maybe of one session."""
        return [
            event["params"]
            for event in self.events
            if event["method"] == method and instance in (None, event["params"].get("instance"))
        ]

    async def end(self) -> int:
        """End as a good client does; return the exit code."""
        await self.request("shutdown")
        self.notify("exit")
        return await self.wait()

    async def wait(self) -> int:
        """Wait, within a bound, until the process has ended; return the exit code."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()

    async def kill(self) -> None:
        """End the process, whatever it does, and the reader."""
        if self.process.returncode is None:
            self.process.kill()
        await self.wait()
        self.reading.set()
        self.stdin.close()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await self._reader

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        try:
            while True:
                await self.reading.wait()
                message = await _read_frame(stdout)
                if message is None:
                    return
                self._take(message)
                self.changed()
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(EOFError("the daemon has ended its output"))
                    answer.exception()
            self.changed()

    def _take(self, message: dict[str, Any]) -> None:
        self.log.append(message)
        if "method" in message and "id" in message:
            self._answer(message)
            return
        if "method" in message:
            self.events.append(message)
            return
        answer = self._waiting.pop(message["id"], None)
        if answer is None:
            self.strays.append(message)
        elif answer.done():
            raise AssertionError(f"a second reply: {message}")
        elif "error" in message:
            answer.set_exception(RpcError(message["error"]))
        else:
            answer.set_result(message["result"])

    def _answer(self, request: dict[str, Any]) -> None:
        """Answer a request of the daemon's as the test said; else leave it standing."""
        self.asked.append(request)
        answer = self.answers.get(request["method"])
        if answer is not None:
            result = answer(request.get("params"))
            self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def _give_up(answer: asyncio.Future[Any], request_id: Any) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError(f"request {request_id!r} was never answered"))


async def _read_frame(stdout: asyncio.StreamReader) -> dict[str, Any] | None:
    header = await stdout.readline()
    if not header:
        return None
    name, _, length = header.partition(b":")
    assert name == b"Content-Length", f"not a frame: {header!r}"
    assert await stdout.readline() == b"\r\n"
    message = json.loads(await stdout.readexactly(int(length)))
    assert isinstance(message, dict)
    assert message["jsonrpc"] == "2.0"
    return message


@contextlib.asynccontextmanager
async def daemon(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    initialize: bool = True,
    program: Sequence[str] = SERVE,
    **spawn: Any,
) -> AsyncIterator[Daemon]:
    """Start `treadle serve` in a process of its own; it is gone at the end, whatever happened.

    Args:
        arguments: further ones of `serve`.
        env: variables beside those of this process.
        initialize: whether to say hello first.
        program: what to start instead, such as a driver that breaks something first.
        spawn: further ones of `create_subprocess_exec`.
    """
    process = await asyncio.create_subprocess_exec(
        *program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
        **spawn,
    )
    client = Daemon(process)
    try:
        if initialize:
            await client.initialize()
        yield client
    finally:
        await client.kill()
