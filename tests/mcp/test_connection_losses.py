"""Connections through pipes with servers that fail, misbehave or say nothing."""

from __future__ import annotations

import asyncio

import pytest

from support.mcp.host import FakeHost, lines, spoken_with
from support.waiting import PATIENCE_SECONDS
from treadle.mcp.remote import Connection, RemoteError, RemoteResult
from treadle.mcp.sdk import messages, speaking

HOST = FakeHost()


async def call(
    connection: Connection, text: str = "hi", seconds: float = PATIENCE_SECONDS
) -> RemoteResult:
    return await connection.call("echo", {"text": text}, seconds=seconds, progress=HOST.note)


def said(result: RemoteResult) -> str:
    return str(result.blocks[0]["text"])


async def test_a_server_that_dies_while_it_is_idle_is_missed_at_once() -> None:
    program = "def initialized(notification): os._exit(5)"
    async with spoken_with(*lines(program)) as (connection, _):
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await connection.wait_lost() == "the server ended with exit code 5"
        with pytest.raises(RemoteError, match=r"^the server ended with exit code 5$"):
            await call(connection)


@pytest.mark.parametrize("kin", ["", "if not os.fork(): time.sleep(600)\n"])
async def test_every_call_in_flight_learns_how_the_server_ended(kin: str) -> None:
    program = f"""
calls = []
{kin}
def call(request):
    calls.append(request)
    if len(calls) == 3:
        raw(b'{{"jsonrpc": "2.0", "id": 1, "res')
        os._exit(7)
"""
    async with spoken_with(*lines(program)) as (connection, _):
        async with asyncio.timeout(PATIENCE_SECONDS):
            calls = [call(connection) for _ in range(3)]
            results = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(result) for result in results] == [
        "the server ended with exit code 7 while it answered; it may have had effects"
    ] * 3


async def test_an_answer_before_the_end_is_an_answer() -> None:
    program = """
if not os.fork(): time.sleep(600)
def call(request):
    answer(request, text("x" * 200_000))
    os._exit(0)
"""
    async with spoken_with(*lines(program)) as (connection, _):
        assert len(said(await call(connection))) == 200_000
        assert await connection.wait_lost() == "the server ended with exit code 0"


async def test_a_grandchild_that_writes_for_ever_does_not_keep_a_dead_server() -> None:
    program = r"""
if not os.fork():
    # As much as a pipe takes in one piece, so that nobody's lines are torn.
    while True: raw(b'noise\n' * 600)
def call(request): os._exit(3)
"""
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError, match="exit code 3 while it answered"):
            await call(connection)


async def test_a_server_that_closes_its_output_is_lost() -> None:
    program = "def call(request): os.close(1); time.sleep(600)"
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError, match="the server closed its output while it answered"):
            await call(connection)
        assert await connection.wait_lost() == "the server closed its output"


async def test_a_server_that_closes_its_input_is_lost() -> None:
    program = "def initialized(notification): os.close(0); time.sleep(600)"
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError):
            while True:
                await call(connection, seconds=0.2)
        assert await connection.wait_lost() == "the server takes no more input"


async def test_a_server_that_dies_before_it_answers_is_said_so() -> None:
    with pytest.raises(RemoteError, match=r"^the server ended with exit code 3$"):
        async with spoken_with(*lines("os._exit(3)")):
            pytest.fail("it is connected")


async def test_a_large_answer_comes_whole() -> None:
    program = "def call(request): answer(request, text('x' * 20_000_000))"
    async with spoken_with(*lines(program)) as (connection, _):
        assert len(said(await call(connection))) == 20_000_000


async def test_a_line_that_is_too_long_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.mcp.stdio.LINE_BYTES", 1024 * 1024)
    program = "def call(request): raw(b'x' * 2_000_000); time.sleep(600)"
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError, match="a line of more than 1 MiB while it answered"):
            await call(connection)


async def test_what_is_no_message_is_noise_and_stands_in_nobodys_way() -> None:
    program = r"""
def call(request):
    raw(b'\nnpm WARN deprecated\r\n\xff\xfe\n[]\nnull\n{"jsonrpc": "2.0"\n{"jsonrpc": "2.0"}\n')
    raw(b'{"jsonrpc": "2.0", "id": 987, "result": {}}\n')
    line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": text("here")}).encode()
    raw(line + b"\r\n")
"""
    host = FakeHost()
    async with spoken_with(*lines(program), host=host) as (connection, _):
        assert said(await call(connection)) == "here"
        assert said(await call(connection)) == "here"
    noise = b'npm WARN deprecated\n\xff\xfe\n[]\nnull\n{"jsonrpc": "2.0"\n{"jsonrpc": "2.0"}\n'
    assert bytes(host.noise) == noise * 2


async def test_what_a_server_prints_last_without_a_line_end_is_noise_too() -> None:
    host = FakeHost()
    with pytest.raises(RemoteError):
        async with spoken_with(*lines("raw(b'cannot find it'); os._exit(1)"), host=host):
            pytest.fail("it is connected")
    assert bytes(host.noise) == b"cannot find it\n"


async def test_an_answer_behind_a_flood_of_noise_comes_and_little_of_that_is_passed_on() -> None:
    program = r"""
def call(request):
    raw(b'noise of a server\n' * 400_000)
    answer(request, text("here"))
"""
    host = FakeHost()
    async with spoken_with(*lines(program), host=host) as (connection, _):
        assert said(await call(connection)) == "here"
    assert host.longest_noise <= 8 * 1024
    assert len(host.noise) < 2_000_000


async def test_an_answer_that_cannot_be_read_is_not_waited_for() -> None:
    program = """
def call(request): answer(request, ["no", "result"])
"""
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError, match="its answer is none that the protocol knows"):
            await call(connection)
        assert connection.era == "handshake"


@pytest.mark.parametrize(
    "answered",
    [
        '{"jsonrpc":"2.0","id":%s,"result":%s}',
        '{"id": %s, "jsonrpc": "2.0", "result": %s}',
        '{"result":%s,"jsonrpc":"2.0","id":%s}',
        '{"jsonrpc": "2.0", "result": %s, "id": %s }',
    ],
)
async def test_an_answer_that_nests_too_deep_is_not_waited_for(answered: str) -> None:
    program = f"""
def call(request):
    deep = '{{"a":' * 100_000 + '{{"id":7}}' + '}}' * 100_000
    number = json.dumps(request["id"])
    told = {answered!r}
    parts = (deep, number) if told.index("result") < told.index("id") else (number, deep)
    raw((told % parts + "\\n").encode())
"""
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError, match="its answer is none that the protocol knows"):
            await call(connection)


@pytest.mark.parametrize(
    "strange",
    [
        '{"type":"object","properties":' + '{"a":' * 300 + "1" + "}" * 301,
        '{"type":"object","enum":' + "[" * 300 + "]" * 300 + "}",
        '{"type":"object","properties":{"n":{"maximum":1' + "0" * 5000 + "}}}",
    ],
)
async def test_a_schema_that_no_library_takes_costs_no_other_tool(strange: str) -> None:
    program = f"""
def list(request):
    odd = {{"name": "odd", "inputSchema": "@", "outputSchema": "@"}}
    message = {{"id": request["id"], "result": {{"tools": [odd, {{"name": "echo"}}]}}}}
    line = json.dumps({{"jsonrpc": "2.0", **message}})
    raw(line.replace('"@"', {strange!r}).encode() + b"\\n")
"""
    async with spoken_with(*lines(program)) as (connection, _):
        listed = await connection.list_tools(PATIENCE_SECONDS)
        assert [tool.name for tool in listed] == ["odd", "echo"]
        assert said(await call(connection)) == "hi"


@pytest.mark.parametrize("cursor", [None, "more"])
async def test_of_a_list_that_is_too_large_the_first_tools_are_taken(
    cursor: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = f"""
def list(request):
    page = (request.get("params") or {{}}).get("cursor", "0")
    tools = [{{"name": f"{{page}}-{{n}}", "description": "x" * 1000}} for n in range(9)]
    cursor = {{"nextCursor": str(int(page) + 1)}} if {cursor!r} else {{}}
    answer(request, {{"tools": tools, **cursor}})
"""
    monkeypatch.setattr(messages, "TOOLS_BYTES", 5_400)
    monkeypatch.setattr(speaking, "TOOLS_BYTES", 5_400)
    async with spoken_with(*lines(program)) as (connection, _):
        listed = await connection.list_tools(PATIENCE_SECONDS)
        assert [tool.name for tool in listed] == [f"0-{n}" for n in range(5)]
    assert "lists tools without end" in caplog.text


async def test_an_answer_of_the_wrong_shape_is_told_with_what_is_wrong() -> None:
    program = """
def call(request): answer(request, {"content": [{"type": "image"}]})
"""
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError, match=r"^the server's answer is not what the protocol"):
            await call(connection)


async def test_half_characters_come_whole() -> None:
    program = r"""
def call(request):
    half = {"\udfff": 1}
    answer(request, {**text("a \ud800 b \U0001f600"), "structuredContent": half})
"""
    async with spoken_with(*lines(program)) as (connection, _):
        assert await call(connection) == RemoteResult(
            ({"type": "text", "text": "a \ufffd b \U0001f600"},), {"\ufffd": 1}
        )


CANCELS = """
heard = []
def cancelled(notification): heard.append(notification["params"]["requestId"])
def call(request):
    if request["params"]["arguments"]["text"] == "heard":
        answer(request, text(str(len(heard))))
"""


async def test_a_deadline_is_told_and_the_server_hears_of_it() -> None:
    async with spoken_with(*lines(CANCELS)) as (connection, _):
        with pytest.raises(RemoteError) as caught:
            await call(connection, seconds=0.1)
        assert caught.value.message == (
            "the server did not answer within 0.1 seconds; it may have had effects"
        )
        assert said(await call(connection, "heard")) == "1"


async def test_a_caller_that_is_cancelled_tells_the_server() -> None:
    async with spoken_with(*lines(CANCELS)) as (connection, _):
        calling = asyncio.create_task(call(connection))
        assert said(await call(connection, "heard")) == "0"
        calling.cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait({calling})
        assert calling.cancelled()
        assert said(await call(connection, "heard")) == "1"


async def test_a_server_that_reads_nothing_blocks_nobody_beyond_their_deadlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How long the SDK itself would wait to tell the server that a caller is gone.
    monkeypatch.setattr("mcp.shared.jsonrpc_dispatcher._ABANDON_WRITE_TIMEOUT", 600)
    program = "def initialized(notification): time.sleep(600)"
    async with spoken_with(*lines(program)) as (connection, _):
        async with asyncio.timeout(PATIENCE_SECONDS):
            calls = [call(connection, "x" * 1_000_000, seconds=0.2) for _ in range(5)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {str(result) for result in results} == {
                "the server did not answer within 0.2 seconds; it may have had effects"
            }
            calling = asyncio.create_task(call(connection, "x" * 1_000_000))
            await asyncio.sleep(0)
            calling.cancel()
            await asyncio.wait({calling})


async def tasks_at_most(work: object) -> int:
    """Return how many tasks there were at most while some work was done."""
    working = asyncio.ensure_future(work)  # type: ignore[call-overload]  # any awaitable
    most = 0
    while not working.done():
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
    await working
    return most


@pytest.mark.parametrize(
    "flood",
    [
        '{"method": "notifications/message", "params": {"level": "info", "data": "x"}}',
        '{"method": "notifications/tools/list_changed"}',
        '{"method": "notifications/progress", "params": {"progressToken": 2, "progress": 1}}',
        '{"method": "notifications/nonsense", "params": {"x": 1}}',
    ],
)
async def test_a_flood_of_notifications_piles_up_nowhere(flood: str) -> None:
    program = f"""
line = json.dumps({{"jsonrpc": "2.0", **{flood}}}).encode() + b"\\n"
def call(request):
    raw(line * 10_000)
    answer(request, text("here"))
"""
    host = FakeHost()
    async with spoken_with(*lines(program), host=host) as (connection, _):
        assert await tasks_at_most(call(connection)) < 50


@pytest.mark.parametrize("same", [True, False])
async def test_a_flood_of_questions_is_refused_and_piles_up_nowhere(same: bool) -> None:
    program = f"""
import threading
refused = 0
def listen():
    for line in sys.stdin.buffer:
        message = json.loads(line)
        refused.append("error" in message)
def call(request):
    global refused
    refused = []
    threading.Thread(target=listen, daemon=True).start()
    form = {{"message": "?", "requestedSchema": {{"type": "object", "properties": {{}}}}}}
    for number in range(10_000):
        number = "q" if {same} else f"q{{number}}"
        write({{"id": number, "method": "elicitation/create", "params": form}})
    while len(refused) < 10_000 - {1 if same else 16}: time.sleep(0.01)
    answer(request, text(str(sum(refused))))
    time.sleep(600)
"""
    host = FakeHost()
    async with spoken_with(*lines(program), host=host) as (connection, _):
        working = asyncio.ensure_future(call(connection))
        assert await tasks_at_most(working) < 60
        assert said(working.result()) == ("9999" if same else "9984")
    assert len(host.asked) == (1 if same else 16)


async def test_a_server_that_asks_without_listening_is_not_read_for_ever() -> None:
    program = """
def call(request):
    form = {"message": "?" * 1000, "requestedSchema": {"type": "object", "properties": {}}}
    number = 0
    while True:
        number += 1
        write({"id": number, "method": "elicitation/create", "params": form})
"""
    host = FakeHost(answer=None)
    async with spoken_with(*lines(program), host=host) as (connection, child):
        with pytest.raises(RemoteError, match="within 1 seconds"):
            await call(connection, seconds=1)
        assert child.stdin.transport.get_write_buffer_size() < 1_000_000
