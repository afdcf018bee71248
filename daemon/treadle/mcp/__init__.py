"""MCP servers: declared, started, called and stopped. The `mcp` package speaks the protocol."""
