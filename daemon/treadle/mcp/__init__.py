"""MCP servers: declared, started, called and stopped; the protocol itself is the `mcp` package's."""
