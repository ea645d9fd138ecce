"""Tools from MCP servers, which the official SDK talks to."""
