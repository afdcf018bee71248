"""Two tools for a server that offers resources: what there is, and reading one of it.

Owns their words. Refuses to know how a server is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias

import msgspec

from treadle.mcp.naming import tool_names
from treadle.mcp.remote import RemoteError, RemoteResource
from treadle.mcp.results import contents_of, link_line
from treadle.models.completion import ToolSpec
from treadle.tools.tool import Answer, Handler, Tool, ToolContext, ToolError

ListResources: TypeAlias = Callable[[], Awaitable[tuple[RemoteResource, ...]]]
"""Lists what a server has. Contract: bounds itself; raises RemoteError."""

ReadResource: TypeAlias = Callable[[str], Awaitable[tuple[dict[str, Any], ...]]]
"""Returns what a resource holds, by its uri. Contract: bounds itself; raises RemoteError."""


# What the two are called behind the server's name, in the order in which they are made.
RESOURCE_TOOLS = ("list_resources", "read_resource")


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class _Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What reading takes."""

    uri: str


def resource_tools(
    server_name: str,
    taken: Collection[str],
    list_resources: ListResources,
    read_resource: ReadResource,
) -> list[Tool]:
    """Make `<server>__list_resources` and `<server>__read_resource`.

    Args:
        server_name: the server's name.
        taken: names of other tools, the server's own among them.
        list_resources: lists what it has.
        read_resource: reads one.
    """
    names = tool_names(server_name, RESOURCE_TOOLS, taken)

    async def listed(_: _Nothing, context: ToolContext) -> str:
        try:
            return _lines(await list_resources())
        except RemoteError as error:
            raise ToolError(error.message) from error

    async def read(arguments: _Read, context: ToolContext) -> Answer:
        try:
            contents = await read_resource(arguments.uri)
        except RemoteError as error:
            raise ToolError(error.message) from error
        return await asyncio.to_thread(contents_of, contents)

    list_spec, read_spec = _specs(server_name, names["list_resources"], names["read_resource"])
    return [_tool(list_spec, listed, _Nothing), _tool(read_spec, read, _Read)]


def _specs(server_name: str, list_name: str, read_name: str) -> tuple[ToolSpec, ToolSpec]:
    which = f"Which one, as {list_name} names it; in a template, what stands in braces filled in."
    uri = {"type": "string", "description": which}
    return (
        ToolSpec(
            list_name,
            f"List the resources that the MCP server {server_name} has: their URIs, which "
            f"{read_name} reads, and what they are.",
            {"type": "object", "properties": {}},
        ),
        ToolSpec(
            read_name,
            f"Read a resource of the MCP server {server_name}.",
            {"type": "object", "properties": {"uri": uri}, "required": ["uri"]},
        ),
    )


def _tool(spec: ToolSpec, handler: Handler, arguments: type[msgspec.Struct]) -> Tool:
    return Tool(
        spec,
        "mcp",
        handler,
        lambda given: msgspec.convert(given, arguments),
        # Asking the server bounds itself.
        deadline_seconds=None,
    )


def _lines(resources: tuple[RemoteResource, ...]) -> str:
    return "\n".join(map(_line, resources)) or "There are no resources."


def _line(resource: RemoteResource) -> str:
    link = link_line(
        {"uri": resource.uri, "name": resource.name, "description": resource.description}
    )
    kind = "template" if resource.is_template else resource.mime_type
    return f"{link.removeprefix('See ')} [{kind}]" if kind else link.removeprefix("See ")
