"""Connections with servers through pipes: what is asked, told and answered, in both eras."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest

from support.mcp.host import FakeHost, lines, official, spoken_with
from treadle.mcp.remote import (
    ElicitationAnswer,
    Elicited,
    Era,
    PromptArgument,
    RemoteError,
    RemotePrompt,
    RemoteResource,
    RemoteResult,
    RemoteTool,
)

ERAS: tuple[Era, ...] = ("handshake", "modern")

MODERN_ONLY = """
def initialize(request): fail(request, text="this server is of 2026")
def discover(request):
    answer(request, {"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
def list(request):
    tool = {"name": "echo", "inputSchema": {"type": "object"}}
    ours = {"ttlMs": 0, "cacheScope": "private"}
    answer(request, {"resultType": "complete", "tools": [tool], **ours})
"""


def words(result: RemoteResult) -> str:
    return str(result.blocks[0]["text"])


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_of_either_era_answers_everything(era: Era) -> None:
    host = FakeHost()
    async with spoken_with(*official(), host=host, era=era) as (connection, _):
        assert connection.era == era
        assert connection.server == "official 3"
        assert connection.offers == {"tools", "resources", "prompts"}

        tools = {tool.name: tool for tool in await connection.list_tools(10)}
        assert list(tools) == ["add", "steps", "large", "fails", "grow"]
        assert tools["fails"] == RemoteTool(
            "fails", "Fail.", {"properties": {}, "title": "failsArguments", "type": "object"}
        )
        assert await connection.call("add", {"a": 1, "b": 2}, seconds=10, progress=host.note) == (
            RemoteResult(({"type": "text", "text": '{\n  "sum": 3\n}'},), {"sum": 3})
        )
        failed = await connection.call("fails", {}, seconds=10, progress=host.note)
        assert failed.is_error

        assert await connection.list_resources(10) == (
            RemoteResource("memo://one", "One", "Say one.", "text/plain"),
            RemoteResource("memo://{name}/more", "more", "Say more.", "text/plain", True),
        )
        assert await connection.read_resource("memo://one", 10) == (
            {"uri": "memo://one", "mimeType": "text/plain", "text": "the first"},
        )
        assert await connection.list_prompts(10) == (
            RemotePrompt("greet", "Greet somebody.", (PromptArgument("who", "", True),)),
        )
        assert await connection.get_prompt("greet", {"who": "you"}, 10) == (
            ("user", {"type": "text", "text": "Hello, you!"}),
        )


@pytest.mark.parametrize("era", ERAS)
async def test_progress_reaches_the_call_and_a_change_of_tools_the_host(era: Era) -> None:
    host = FakeHost()
    async with spoken_with(*official(), host=host, era=era) as (connection, _):
        await connection.call("steps", {}, seconds=10, progress=host.note)
        assert host.progress == [("half way", 1.0, 2.0)]
        await connection.call("grow", {}, seconds=10, progress=host.note)
        await host.until(lambda: host.changes > 0)
        assert "grown" in [tool.name for tool in await connection.list_tools(10)]


async def test_a_server_that_refuses_the_handshake_is_asked_in_the_modern_way() -> None:
    async with spoken_with(*lines(MODERN_ONLY)) as (connection, _):
        assert connection.era == "modern"
        assert [tool.name for tool in await connection.list_tools(10)] == ["echo"]


async def test_a_server_that_forgot_the_modern_way_is_asked_for_the_handshake() -> None:
    async with spoken_with(*lines(), era="modern") as (connection, _):
        assert connection.era == "handshake"


async def test_a_version_that_nobody_knows_is_said_so() -> None:
    program = """
def initialize(request):
    answer(request, {"protocolVersion": "1999-01-01", "capabilities": {},
        "serverInfo": {"name": "old", "version": "1"}})
"""
    with pytest.raises(RemoteError) as caught:
        async with spoken_with(*lines(program)):
            pytest.fail("it is connected")
    assert caught.value.message == (
        "the server cannot be spoken with: the server cannot be understood: Unsupported protocol "
        "version from the server: 1999-01-01; the server answered with an error: no such method"
    )


async def test_what_a_server_may_ask_is_said_and_nothing_else() -> None:
    program = """
def initialize(request):
    global told
    told = request["params"]
    answer(request, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "x", "version": "1"}})
def call(request): answer(request, text(json.dumps(told["capabilities"], sort_keys=True)))
"""
    host = FakeHost(may_sample=True)
    for host, sampling in ((FakeHost(), ""), (FakeHost(may_sample=True), ', "sampling": {}')):
        async with spoken_with(*lines(program), host=host) as (connection, _):
            told = await connection.call("echo", {}, seconds=10, progress=host.note)
        assert words(told) == (
            '{"elicitation": {"form": {}}, "roots": {"listChanged": false}' + sampling + "}"
        )


ASKS = """
def call(request):
    arguments = request["params"]["arguments"]
    write({"id": "q", "method": arguments["method"], "params": arguments["params"]})
    reply = read()
    answer(request, text(json.dumps(reply.get("result") or reply.get("error"), sort_keys=True)))
"""


async def ask(host: FakeHost, method: str, params: dict[str, object]) -> str:
    async with spoken_with(*lines(ASKS), host=host) as (connection, _):
        arguments = {"method": method, "params": params}
        return words(await connection.call("echo", arguments, seconds=10, progress=host.note))


async def test_the_person_fills_in_a_form_and_visits_no_address() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    host = FakeHost(answer=ElicitationAnswer("accept", {"name": "Ada"}))
    form = {"message": "Who?", "requestedSchema": schema}
    said = await ask(host, "elicitation/create", form)
    assert said == '{"action": "accept", "content": {"name": "Ada"}}'
    assert host.asked == [Elicited("Who?", schema)]

    url = {"mode": "url", "message": "Go", "url": "https://example.com", "elicitationId": "1"}
    assert "only forms can be filled in" in await ask(host, "elicitation/create", url)
    assert len(host.asked) == 1


async def test_the_model_is_sampled_in_text_and_only_where_that_is_allowed() -> None:
    question = {"role": "user", "content": {"type": "text", "text": "Capital of France?"}}
    params: dict[str, object] = {"messages": [question], "maxTokens": 9, "systemPrompt": "brief"}
    host = FakeHost(may_sample=True)
    said = await ask(host, "sampling/createMessage", params)
    assert '"text": "Paris"' in said
    assert '"model": "a-model"' in said
    assert host.sampled == [((("user", "Capital of France?"),), "brief", 9)]

    refused = await ask(host, "sampling/createMessage", {**params, "systemPrompt": "refuse"})
    assert refused == '{"code": -32603, "message": "no turn runs"}'
    image = {"role": "user", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}}
    picture = await ask(host, "sampling/createMessage", {**params, "messages": [image]})
    assert "plain text only" in picture
    assert "not supported" in await ask(FakeHost(), "sampling/createMessage", params)


async def test_roots_are_the_sessions_folders(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    said = await ask(FakeHost(roots=(folder,)), "roots/list", {})
    assert said == f'{{"roots": [{{"name": "{folder.name}", "uri": "{folder.as_uri()}"}}]}}'


async def test_what_a_server_logs_reaches_the_host_and_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    program = """
def call(request):
    for data in ("token-123", {"a": 1}):
        write({"method": "notifications/message", "params": {"level": "info", "data": data}})
    answer(request, text("token-123"))
"""
    host = FakeHost()
    async with spoken_with(*lines(program), host=host) as (connection, _):
        await connection.call("echo", {"text": "token-123"}, seconds=10, progress=host.note)
        await host.until(lambda: len(host.log) == 2)
    assert host.log == [("info", "token-123"), ("info", "{'a': 1}")]
    assert "token-123" not in caplog.text


LISTS = """
def list(request):
    cursor = int((request["params"] or {}).get("cursor", 0)) if "params" in request else 0
    page(request, cursor)
def tool(name, **more): return {"name": name, "inputSchema": {"type": "object"}, **more}
"""


async def test_all_pages_of_a_list_are_taken_and_one_without_end_is_not() -> None:
    pages = (
        LISTS
        + """
def page(request, cursor):
    more = {"nextCursor": str(cursor + 1)} if cursor < 4 else {}
    answer(request, {"tools": [tool(f"t{cursor}")], **more})
"""
    )
    host = FakeHost()
    async with spoken_with(*lines(pages), host=host) as (connection, _):
        names = [tool.name for tool in await connection.list_tools(10)]
    assert (names, host.log) == (["t0", "t1", "t2", "t3", "t4"], [])

    circle = (
        LISTS
        + """
def page(request, cursor): answer(request, {"tools": [tool(f"t{cursor}")], "nextCursor": "1"})
"""
    )
    async with spoken_with(*lines(circle), host=host) as (connection, _):
        names = [tool.name for tool in await connection.list_tools(10)]
    assert names == ["t0", "t1"]
    assert host.log == [("warning", "the list of tools has no end; 2 of it are taken")]

    endless = (
        LISTS
        + """
def page(request, cursor):
    tools = [tool(f"t{cursor * 50 + i}") for i in range(50)]
    answer(request, {"tools": tools, "nextCursor": str(cursor + 1)})
"""
    )
    async with spoken_with(*lines(endless), host=host) as (connection, _):
        assert len(await connection.list_tools(10)) == 2_000


async def test_a_strange_tool_costs_neither_itself_nor_the_others() -> None:
    program = (
        LISTS
        + r"""
def page(request, cursor):
    tools = [
        tool("plain", title="Plain", annotations={"readOnlyHint": True, "title": 7, "x": 1}),
        {"name": "bare", "description": "x" * 20_000},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "untyped", "inputSchema": {"properties": {"a": {}}, "required": "a"}},
        {"name": "half", "description": "a \ud800 b", "inputSchema": None, "outputSchema": 3},
        {"name": 7}, "nonsense", tool("plain", title="again"),
    ]
    answer(request, {"tools": tools})
"""
    )
    async with spoken_with(*lines(program)) as (connection, _):
        tools = await connection.list_tools(10)
    assert tools == (
        RemoteTool("plain", title="Plain", annotations={"readOnlyHint": True}),
        RemoteTool("bare", "x" * 10_000 + "…"),
        RemoteTool(
            "text",
            parameters={
                "type": "object",
                "description": 'The server says of the arguments: {"type": "string"}',
            },
        ),
        RemoteTool("untyped", parameters={"type": "object", "properties": {"a": {}}}),
        RemoteTool("half", "a \ufffd b"),
    )


async def test_an_answer_that_is_not_what_its_tool_promised_is_an_error_with_its_text() -> None:
    program = (
        LISTS
        + """
def page(request, cursor):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer(request, {"tools": [tool("echo", outputSchema=schema)]})
def call(request):
    answer(request, {**text("the words"), "structuredContent": request["params"]["arguments"]})
"""
    )
    host = FakeHost()
    async with spoken_with(*lines(program)) as (connection, _):
        await connection.list_tools(10)
        good = await connection.call("echo", {"n": 1}, seconds=10, progress=host.note)
        with pytest.raises(RemoteError) as caught:
            await connection.call("echo", {"n": "one"}, seconds=10, progress=host.note)
    assert good.structured == {"n": 1}
    assert caught.value.message == (
        "the tool's answer is not what it promises: 'one' is not of type 'integer' - at `$.n`. "
        "Its text was: the words"
    )


async def test_content_of_an_unknown_kind_is_shown_as_it_is() -> None:
    program = """
def call(request): answer(request, {"content": [{"type": "hologram", "depth": 3}]})
"""
    host = FakeHost()
    async with spoken_with(*lines(program)) as (connection, _):
        result = await connection.call("echo", {}, seconds=10, progress=host.note)
    assert words(result) == '{"type": "hologram", "depth": 3}'


async def test_an_error_of_the_server_keeps_its_words_and_its_code() -> None:
    program = """
def call(request): fail(request, -32602, "no \\ud800 such city")
"""
    host = FakeHost()
    async with spoken_with(*lines(program)) as (connection, _):
        with pytest.raises(RemoteError) as caught:
            await connection.call("echo", {}, seconds=10, progress=host.note)
    assert (caught.value.message, caught.value.code) == (
        "the server answered with an error: no \ufffd such city",
        -32602,
    )


async def test_calls_side_by_side_get_their_own_answers() -> None:
    program = """
waiting = []
def call(request):
    waiting.append(request)
    if len(waiting) == 3:
        for each in reversed(waiting):
            answer(each, text(each["params"]["arguments"]["text"]))
"""
    host = FakeHost()
    async with spoken_with(*lines(program)) as (connection, _):
        results = await asyncio.gather(
            *(
                connection.call("echo", {"text": text}, seconds=10, progress=host.note)
                for text in "abc"
            )
        )
    assert [words(result) for result in results] == ["a", "b", "c"]


def test_nothing_of_weight_is_loaded_before_the_first_connection() -> None:
    code = (
        "import sys, treadle.mcp.connection, treadle.mcp.stdio, treadle.mcp.remembered\n"
        "print({'mcp', 'mcp_types', 'pydantic', 'httpx2', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "set()"
