"""Connections that are left: at any moment, more than once, whatever the server does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import pytest

from support.mcp.host import FakeHost, lines, official, spoken_with, started
from support.waiting import PATIENCE_SECONDS
from treadle.mcp.connection import connect
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.remote import Connection, RemoteError

DECLARATION = ServerDeclaration("it", command=sys.executable)

DEAF = "def initialized(notification): time.sleep(600)"


@pytest.fixture(autouse=True)
def _nobody_needs_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.mcp.connection.LEAVE_SECONDS", 600)


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def live(child: object, host: FakeHost, holding: asyncio.Event) -> None:
    """Be the owner task of a connection, until cancelled."""
    async with connect(
        DECLARATION,
        host,
        child=child,  # type: ignore[arg-type]  # whatever the test started
        era=None,
        noise=host.take_noise,
    ):
        holding.set()
        await asyncio.get_running_loop().create_future()


async def ended(task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait({task})
    assert task.cancelled()


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("pause", range(12))
async def test_a_start_that_is_cancelled_ends_at_once_at_any_moment(pause: int) -> None:
    program = """
own = initialize
def initialize(request):
    raw(b"asked\\n")
    own(request)
"""
    host = FakeHost()
    async with started(*lines(program)) as child:
        owner = asyncio.create_task(live(child, host, asyncio.Event()))
        await host.until(lambda: host.noise == b"asked\n")
        await turns(pause)
        owner.cancel()
        await turns(pause)
        owner.cancel()
        await ended(owner)


async def test_a_start_that_is_cancelled_before_it_began_ends_at_once() -> None:
    host = FakeHost()
    async with started(*lines()) as child:
        owner = asyncio.create_task(live(child, host, asyncio.Event()))
        await turns(1)
        owner.cancel()
        await ended(owner)


async def test_a_server_that_never_answers_is_left_when_its_caller_has_had_enough() -> None:
    host = FakeHost()
    async with started(*lines("def initialize(request): raw(b'asked\\n')")) as child:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS) as patience:
                owner = asyncio.create_task(live(child, host, asyncio.Event()))
                await host.until(lambda: host.noise == b"asked\n")
                patience.reschedule(asyncio.get_running_loop().time())
                await owner
        await ended(owner)


@pytest.mark.parametrize("program", ["", DEAF])
@pytest.mark.parametrize("cancels", [1, 2, 5])
async def test_an_owner_that_is_cancelled_leaves_at_once(program: str, cancels: int) -> None:
    host, holding = FakeHost(), asyncio.Event()
    async with started(*lines(program)) as child:
        owner = asyncio.create_task(live(child, host, holding))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await holding.wait()
        for _ in range(cancels):
            owner.cancel()
            await turns(1)
        await ended(owner)


@pytest.mark.parametrize("program", ["def call(request): pass", DEAF])
@pytest.mark.parametrize("steps", [1, 3, 10, 40])
async def test_calls_in_flight_end_when_the_connection_is_left(program: str, steps: int) -> None:
    calls: list[asyncio.Task[object]] = []

    async def call(connection: Connection) -> None:
        text = "x" * 300_000
        await connection.call(
            "echo", {"text": text}, seconds=PATIENCE_SECONDS, progress=FakeHost().note
        )

    async with spoken_with(*lines(program)) as (connection, _):
        calls += [asyncio.create_task(call(connection)) for _ in range(3)]
        await turns(steps)
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(result) for result in results} == {
        "the connection was closed while the server answered; it may have had effects"
    }
    with pytest.raises(RemoteError, match=r"^the connection was closed$"):
        await call(connection)


async def test_a_question_to_the_person_ends_with_the_connection() -> None:
    program = """
def initialized(notification):
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    write({"id": "q", "method": "elicitation/create", "params": form})
    time.sleep(600)
"""
    host = FakeHost(answer=None)
    async with spoken_with(*lines(program), host=host):
        await host.until(lambda: len(host.asked) == 1)


async def test_a_failure_of_the_owner_passes_through_as_it_is() -> None:
    with pytest.raises(LookupError, match="of the owner"):
        async with spoken_with(*official(), era="modern"):
            raise LookupError("of the owner")


async def test_two_connections_live_and_end_beside_each_other_in_any_order() -> None:
    host = FakeHost()
    async with contextlib.AsyncExitStack() as stack:
        owners = []
        for _ in range(3):
            child = await stack.enter_async_context(started(*lines()))
            holding = asyncio.Event()
            owners.append(asyncio.create_task(live(child, host, holding)))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await holding.wait()
        for owner in (owners[1], owners[0], owners[2]):
            owner.cancel()
            await ended(owner)
