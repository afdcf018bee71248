"""A server's tools as an agent has them: told, judged, asked about, called, answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from treadle.mcp.naming import tool_names
from treadle.mcp.remote import RemoteError, RemoteResource, RemoteResult, RemoteTool
from treadle.mcp.resources import resource_tools
from treadle.mcp.tools import (
    DESCRIPTION_CHARACTERS,
    SCHEMA_BYTES,
    TITLE_CHARACTERS,
    as_tools,
)
from treadle.models.completion import ToolSpec
from treadle.permissions.policy import Policy
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.tool import Shown, Tool, ToolContext

SEARCH = RemoteTool(
    "find.it",
    "Find something.",
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
    },
    title="Search",
    annotations={"readOnlyHint": True, "openWorldHint": True, "idempotentHint": "yes"},
)


def made(*remote: RemoteTool, call: Callable[..., Any] | None = None) -> list[Tool]:
    """The tools of a server called `web`."""

    async def echo(name: str, arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
        said = f"{name} {msgspec.json.encode(arguments).decode()} {context.call.id}"
        return RemoteResult(({"type": "text", "text": said},))

    names = tool_names("web", [tool.name for tool in remote], ())
    return as_tools("web", remote, names, call or echo, None)


async def outcome(
    tools: list[Tool], name: str, policy: Policy | None = None, /, **arguments: Any
) -> ToolOutcome:
    """Call one of them as a model does."""
    asked = ToolCall("c1", name, arguments)
    context = ToolContext(VirtualSandbox(), policy=policy or Policy("auto"), call=asked)
    return await run_call(asked, {tool.spec.name: tool for tool in tools}, context)


async def shown(tool: Tool, **arguments: Any) -> Shown:
    """What a person sees who is asked about a call."""
    assert tool.preview is not None
    return await tool.preview(arguments, ToolContext(VirtualSandbox()))


def test_a_model_is_told_of_a_tool_as_its_server_describes_it() -> None:
    (tool,) = made(SEARCH)
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    assert tool.spec == ToolSpec("web__find_it", "Find something.", schema)
    assert (tool.capability, tool.deadline_seconds) == ("mcp", None)


@pytest.mark.parametrize(
    ("tool", "description"),
    [
        (RemoteTool("a", title="Do A"), "Do A"),
        (RemoteTool("a", "  \n"), "The tool a of the MCP server web."),
        (RemoteTool("a", "half \ud800"), "half \ufffd"),
        (RemoteTool("a", "x" * 9999), "x" * DESCRIPTION_CHARACTERS + "…"),
    ],
)
def test_every_tool_has_a_description_and_none_a_long_one(
    tool: RemoteTool, description: str
) -> None:
    assert made(tool)[0].spec.description == description


def test_every_schema_is_one_that_providers_take() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"items": deep}
    plain, large, nested = (
        made(RemoteTool("a", "A.", parameters))[0].spec
        for parameters in ({}, {"description": "x" * SCHEMA_BYTES}, {"properties": {"q": deep}})
    )
    bare = {"type": "object", "properties": {}}
    assert [each.parameters for each in (plain, large, nested)] == [bare] * 3
    assert plain.description == "A."
    for each in (large, nested):
        assert each.description.startswith("A.\n[The schema of its arguments is too large")


def test_of_two_tools_with_one_name_the_first_is_taken() -> None:
    tools = made(RemoteTool("a", "First."), RemoteTool("b"), RemoteTool("a", "Second."))
    assert [tool.spec.name for tool in tools] == ["web__a", "web__b"]
    assert tools[0].spec.description == "First."


async def test_a_call_reaches_the_server_under_its_own_name_for_the_tool() -> None:
    said = await outcome(made(SEARCH), "web__find_it", q="cats")
    assert said == ToolOutcome('find.it {"q":"cats"} c1', ok=True, truncated=False)


async def test_arguments_that_do_not_fit_never_reach_the_server() -> None:
    async def never(*_: object) -> RemoteResult:
        raise AssertionError("it was called")

    said = await outcome(made(SEARCH, call=never), "web__find_it", q=5)
    assert said == ToolOutcome(
        "The arguments of web__find_it do not fit: q: 5 is not of type 'string'. Send an object "
        'that fits this schema: {"type":"object","properties":{"q":{"type":"string"}},'
        '"required":["q"]}',
        ok=False,
        truncated=False,
    )


async def test_what_a_server_refuses_is_a_result_in_its_words() -> None:
    async def refuse(*_: object) -> RemoteResult:
        raise RemoteError("the MCP server web is not there: it crashed", -32000)

    async def fail(*_: object) -> RemoteResult:
        return RemoteResult(({"type": "text", "text": "nothing found"},), is_error=True)

    words = "the MCP server web is not there: it crashed"
    said = await outcome(made(SEARCH, call=refuse), "web__find_it", q="")
    assert said == ToolOutcome(words, ok=False, truncated=False)
    said = await outcome(made(SEARCH, call=fail), "web__find_it", q="")
    assert said == ToolOutcome("nothing found", ok=False, truncated=False)


async def test_a_read_only_agent_calls_what_it_is_allowed_by_name_and_nothing_else() -> None:
    tools = made(SEARCH, RemoteTool("drop"))
    policy = Policy(mcp_allow=("web__find_it",))
    assert (await outcome(tools, "web__find_it", policy, q="")).ok
    refused = await outcome(tools, "web__drop", policy)
    assert not refused.ok
    assert refused.content.startswith("web__drop is not allowed")


async def test_a_person_sees_whose_tool_it_is_all_arguments_and_that_hints_are_the_servers() -> (
    None
):
    (tool,) = made(SEARCH)
    assert await shown(tool, q="cats", n=[1]) == Shown(
        'web: Search (find.it) {"q":"cats","n":[1]}',
        "Server: web\n"
        "Tool: Search (find.it)\n"
        'Arguments: {\n  "q": "cats",\n  "n": [\n    1\n  ]\n}\n'
        "The server says of it, and nobody has checked: it changes nothing, "
        "it reaches the world outside.",
    )


async def test_a_tool_that_says_nothing_of_itself_is_shown_by_its_name() -> None:
    (tool,) = made(RemoteTool("drop", annotations={"title": 5}))
    assert await shown(tool) == Shown("web: drop {}", "Server: web\nTool: drop\nArguments: {}")


async def test_a_title_that_pretends_to_be_more_stays_on_its_line() -> None:
    (tool,) = made(RemoteTool("drop", title="Look\nServer: trusted\x1b[2J" + "x" * 999))
    detail = (await shown(tool)).detail
    assert "\n" not in detail
    assert "\x1b" not in detail
    assert len(detail) < TITLE_CHARACTERS + 40


async def test_a_long_answer_is_cut_and_can_be_read_on() -> None:
    async def talk(*_: object) -> RemoteResult:
        return RemoteResult(({"type": "text", "text": "ä" * 10_000_000},))

    said = await outcome(made(SEARCH, call=talk), "web__find_it", q="")
    assert said.truncated
    assert "the whole result has 20000000 bytes" in said.content


async def test_a_servers_resources_are_listed_and_read() -> None:
    async def listed() -> tuple[RemoteResource, ...]:
        return (
            RemoteResource("file:///a", "A", "It is A.", "text/plain"),
            RemoteResource("file:///{path}", is_template=True),
        )

    async def read(uri: str) -> tuple[dict[str, Any], ...]:
        return ({"uri": uri, "text": "all of it"},)

    taken = {"web__list_resources"}
    tools = resource_tools("web", taken, listed, read)
    names = [tool.spec.name for tool in tools]
    assert names[0].startswith("web__list_resources_")
    assert names[1] == "web__read_resource"
    assert names[0] in tools[1].spec.parameters["properties"]["uri"]["description"]
    assert [tool.capability for tool in tools] == ["mcp", "mcp"]

    said = await outcome(tools, names[0])
    assert said.content == "file:///a (A): It is A. [text/plain]\nfile:///{path} [template]"
    said = await outcome(tools, names[1], uri="file:///a")
    assert said.content == "Contents of file:///a:\nall of it"
    said = await outcome(tools, names[1], url="file:///a")
    assert not said.ok
    assert "do not fit: contains unknown field url" in said.content


async def test_resources_that_cannot_be_had_are_a_result_too() -> None:
    async def gone(*_: object) -> Any:
        raise RemoteError("the server is gone")

    async def none() -> tuple[RemoteResource, ...]:
        return ()

    for tool in resource_tools("web", (), gone, gone):
        said = await outcome(
            [tool], tool.spec.name, **({"uri": "a"} if "read" in tool.spec.name else {})
        )
        assert said == ToolOutcome("the server is gone", ok=False, truncated=False)
    empty = resource_tools("web", (), none, gone)[0]
    assert (await outcome([empty], empty.spec.name)).content == "There are no resources."
