"""A server made with the SDK, which speaks in both of the protocol's ways, through its pipes or
behind a url."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel


class Sum(BaseModel):
    """A sum."""

    sum: int


class Name(BaseModel):
    """A name."""

    name: str


def build(name: str = "official") -> MCPServer:
    """Return the server."""
    server = MCPServer(name, version="3")

    @server.tool()
    def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(sum=a + b)

    @server.tool()
    async def steps(context: Context) -> str:
        """Tell how far it is."""
        await context.report_progress(1, 2, "half way")
        return "done"

    @server.tool()
    def large(size: int) -> str:
        """Return much."""
        return "x" * size

    @server.tool()
    def fails() -> str:
        """Fail."""
        raise ValueError("on purpose")

    @server.tool()
    async def grow(context: Context) -> str:
        """Have one tool more."""
        server.add_tool(lambda: "new", name="grown", description="New.")
        if context.protocol_version == "2026-07-28":
            await context.notify_tools_changed()
        else:
            await context.session.send_tool_list_changed()
        return "grown"

    @server.resource("memo://one", title="One")
    def one() -> str:
        """Say one."""
        return "the first"

    @server.resource("memo://{name}/more")
    def more(name: str) -> str:
        """Say more."""
        return name

    @server.prompt()
    def greet(who: str) -> str:
        """Greet somebody."""
        return f"Hello, {who}!"

    return server


if __name__ == "__main__":
    build(*sys.argv[1:]).run()
