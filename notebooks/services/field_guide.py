"""A field guide to penguins, as an MCP server."""

from mcp.server import MCPServer

HEADS = {
    "Adelie": "A black head with a white ring around the eye.",
    "Chinstrap": "A white face with a thin black line under the chin.",
    "Gentoo": "A black head with a white patch above each eye, and an orange bill.",
}

server = MCPServer("guide")


@server.tool()
def describe(species: str) -> str:
    """How to recognise a species of penguin by its head: Adelie, Chinstrap or Gentoo."""
    if species not in HEADS:
        raise ValueError(f"the guide has no {species}; it has {', '.join(HEADS)}")
    return HEADS[species]


if __name__ == "__main__":
    server.run("stdio")
