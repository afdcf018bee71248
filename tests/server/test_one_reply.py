"""Every request gets exactly one reply, whatever its handler does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.line import Line
from treadle.errors import Busy
from treadle.protocol.base import WireStruct
from treadle.server import connection, dispatch
from treadle.server.handlers import HANDLERS

Handle = Callable[[Callable[[Any, Any], Awaitable[Any]]], None]


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """Put another handler in the place of that of `agent/list`."""
    return lambda handler: monkeypatch.setitem(HANDLERS, "agent/list", handler)


class _Odd(BaseException):
    pass


class _Unencodable(WireStruct):
    value: object


class _Answer(WireStruct):
    value: str


@pytest.mark.parametrize(
    "raised",
    [
        ValueError("secret detail"),
        _Odd("secret detail"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        RecursionError(),
        asyncio.CancelledError("by the handler itself"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_handler_that_raises_is_answered_with_an_internal_error(
    raised: BaseException, handle: Handle, tmp_path: Path
) -> None:
    async def fail(params: Any, peer: Any) -> None:
        raise raised

    handle(fail)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    message = "agent/list failed inside the daemon; its log says how"
    assert await line.reply(1) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32603, "message": message},
    }
    line.send(id=2, method="session/list")
    assert (await line.reply(2))["result"] == {"sessions": []}
    await line.end()


async def test_a_handlers_typed_error_is_answered_as_it_is(handle: Handle, tmp_path: Path) -> None:
    async def fail(params: Any, peer: Any) -> None:
        raise Busy("wait", some_detail=1)

    handle(fail)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    data = {"reason": "busy", "someDetail": 1}
    assert (await line.reply(1))["error"] == {"code": -32803, "message": "wait", "data": data}
    await line.end()


@pytest.mark.parametrize("value", [object(), {1, object()}, lambda: 0], ids=["object", "set", "λ"])
async def test_a_result_that_cannot_be_encoded_is_an_internal_error(
    value: object, handle: Handle, tmp_path: Path
) -> None:
    async def answer(params: Any, peer: Any) -> _Unencodable:
        return _Unencodable(value=value)

    handle(answer)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    assert (await line.reply(1))["error"]["code"] == -32603
    await line.end()


async def test_a_lone_surrogate_in_a_result_is_replaced(handle: Handle, tmp_path: Path) -> None:
    async def answer(params: Any, peer: Any) -> _Answer:
        return _Answer(value="a\ud800b")

    handle(answer)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    assert (await line.reply(1))["result"] == {"value": "a\ufffdb"}
    await line.end()


async def test_a_request_cancelled_before_its_first_step_is_answered(
    handle: Handle, tmp_path: Path
) -> None:
    started = []

    async def never(params: Any, peer: Any) -> None:
        started.append(params)

    handle(never)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    line.send(method="$/cancelRequest", params={"id": 1})
    error = {"code": -32800, "message": "cancelled by the client"}
    assert await line.reply(1) == {"jsonrpc": "2.0", "id": 1, "error": error}
    assert started == []
    await line.end()


async def test_a_running_request_is_answered_as_cancelled_once_it_has_ended(
    handle: Handle, tmp_path: Path
) -> None:
    steps = []

    async def slow(params: Any, peer: Any) -> None:
        steps.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append(f"cleaned up after {len(line.log)} messages")

    handle(slow)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    await asyncio.sleep(0)
    for _ in range(3):
        line.send(method="$/cancelRequest", params={"id": 1})
    assert (await line.reply(1))["error"]["code"] == -32800
    assert steps == ["began", "cleaned up after 0 messages"]
    await line.end()


async def test_cancelling_what_is_not_in_flight_changes_nothing(tmp_path: Path) -> None:
    line = Line(tmp_path)
    line.send(id=1, method="session/list")
    await line.reply(1)
    for params in ({"id": 1}, {"id": "1"}, {"id": 99}, {"id": None}, {"id": 1.5}, {}, [1], 7, None):
        line.send(method="$/cancelRequest", params=params)
    line.send(id=2, method="session/list")
    line.send(method="$/cancelRequest", params={"id": "2"})
    assert (await line.reply(2))["result"] == {"sessions": []}
    assert len(line.log) == 2
    await line.end()


async def test_what_resists_a_close_is_answered_all_the_same(
    handle: Handle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CLOSE_SECONDS", 0.05)
    free = asyncio.Event()

    async def resist(params: Any, peer: Any) -> _Answer:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return _Answer(value="too late")

    handle(resist)
    line = Line(tmp_path)
    line.send(id=1, method="agent/list")
    await asyncio.sleep(0)
    await line.end()
    assert line.replies(1)[0]["error"]["data"] == {"reason": "shutting_down"}
    free.set()
    line.send(id=2, method="session/list")
    await line.reply(2)
    assert len(line.replies(1)) == 1


async def test_requests_beyond_all_reason_are_refused_and_what_ends_work_is_not(
    handle: Handle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "MAX_IN_FLIGHT", 3)
    free = asyncio.Event()

    async def wait(params: Any, peer: Any) -> _Answer:
        await free.wait()
        return _Answer(value="done")

    handle(wait)
    line = Line(tmp_path)
    for number in range(5):
        line.send(id=number, method="agent/list")
    refused = [message["error"]["data"] for message in line.log]
    assert refused == [{"reason": "overloaded"}] * 2
    line.send(id=10, method="session/cancel", params={"agent": "assistant", "instance": "a"})
    assert (await line.reply(10))["result"] == {"cancelled": False}
    line.send(id=11, method="session/close", params={"agent": "assistant", "instance": "a"})
    assert (await line.reply(11))["result"]["closed"] is False
    free.set()
    await line.until(lambda: len(line.log) == 7)
    line.send(id=12, method="agent/list")
    assert (await line.reply(12))["result"] == {"value": "done"}
    await line.end()


async def test_a_runtime_that_cannot_be_made_is_told_to_each_request(tmp_path: Path) -> None:
    def broken() -> Any:
        raise OSError("no disk")

    line = Line(tmp_path, open_runtime=broken)
    line.send(id=1, method="session/list")
    line.send(method="session/close", params={"agent": "assistant", "instance": "a"})
    line.send(id=2, method="shutdown")
    assert [message["error"]["code"] for message in line.log] == [-32603, -32603]
    line.send(method="exit")
    assert line.exits == [1]


async def test_requests_start_in_the_order_in_which_they_arrive(
    handle: Handle, tmp_path: Path
) -> None:
    started = []

    async def note(params: Any, peer: Any) -> _Answer:
        started.append(len(started))
        position = started[-1]
        await asyncio.sleep(0)
        return _Answer(value=str(position))

    handle(note)
    line = Line(tmp_path)
    for number in range(20):
        line.send(id=number, method="agent/list")
    await line.until(lambda: len(line.log) == 20)
    assert {m["id"]: m["result"]["value"] for m in line.log} == {n: str(n) for n in range(20)}
    await line.end()
