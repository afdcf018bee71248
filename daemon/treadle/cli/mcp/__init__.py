"""`treadle mcp`: MCP servers, declared, checked and imported."""
