"""Tools from elsewhere: MCP servers, OpenAPI services, skills."""
