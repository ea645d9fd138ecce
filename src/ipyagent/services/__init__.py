"""Tools that come from elsewhere: MCP servers, OpenAPI services, skills."""
