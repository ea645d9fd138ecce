"""Tools from MCP servers, through the official SDK."""
