"""Tools from elsewhere: MCP servers, OpenAPI services, skills."""

from __future__ import annotations


def notebook_note(on: bool | None) -> list[str]:
    """Return the note on a switch for this notebook alone; `on` is None if there is no switch."""
    if on is None:
        return []
    return ["active in this notebook" if on else "off in this notebook"]
