"""Services described by OpenAPI, as tools.

Most folders have none, so nothing is imported here that only services need.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from ipyagent.config import MCPServerConfig
from ipyagent.config.sources import UserDataFile
from ipyagent.errors import ConfigError

REGISTRY = UserDataFile("services.json")
"""The services of each folder by name, in the user's own data directory."""


Configured = Iterable[MCPServerConfig]
"""The MCP servers of the settings, and the services among them."""


def has_services(folder: Path, configured: Configured = ()) -> bool:
    """Return whether a folder has services; also if their file cannot be read."""
    if configured_services(configured):
        return True
    with contextlib.suppress(ConfigError):
        return bool(REGISTRY.read_of(folder))
    return True


def configured_services(configured: Configured) -> list[MCPServerConfig]:
    """Return the OpenAPI services among the servers of the settings."""
    return [each for each in configured if each.kind == "openapi" and not each.disabled]
