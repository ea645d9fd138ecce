"""The services of a folder, which bring tools from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ipyagent.config import Config, MCPServerConfig
from ipyagent.errors import ConfigError
from ipyagent.services.mcp.sources import ServerSources
from ipyagent.services.openapi.stored_services import has_services
from ipyagent.tools.base import Tool

if TYPE_CHECKING:
    from ipyagent.services.mcp.servers import MCPServers
    from ipyagent.services.openapi.services import OpenAPIServices


@dataclass
class Services:
    """The services of a folder; `home` is where its settings are."""

    folder: Path
    home: Path
    configured: tuple[MCPServerConfig, ...] = ()
    """The MCP servers of the settings in force."""
    switches: Mapping[str, bool] = field(default_factory=dict)
    """Switches of the current session, such as `api:shop` and `mcp:files`."""

    @cached_property
    def mcp(self) -> MCPServers:
        """Return its MCP servers."""
        from ipyagent.services.mcp.servers import MCPServers

        here = partial(self._switches_for, "mcp")
        return MCPServers(self.folder, self.home, os.environ, lambda: self.configured, here)

    @cached_property
    def openapi(self) -> OpenAPIServices:
        """Return its OpenAPI services."""
        from ipyagent.services.openapi.services import OpenAPIServices

        here = partial(self._switches_for, "api")
        configured = lambda: self.configured  # noqa: E731
        return OpenAPIServices(self.folder, self.home, os.environ, configured, here)

    def _switches_for(self, kind: str) -> dict[str, bool]:
        """Return the switches of the services of a kind, by name."""
        named = ((key.partition(":"), on) for key, on in self.switches.items())
        return {name: on for (of, _, name), on in named if of == kind}

    def secrets(self) -> Iterator[str]:
        """Yield the secrets in the settings of all configured servers."""
        yield from chain.from_iterable(each.secrets() for each in self.configured)
        for named in self._sources.collect()[0].values():
            with suppress(ConfigError):
                yield from named.config().secrets()

    async def load_tools(self, config: Config) -> tuple[list[Tool], list[str]]:
        """Return their tools, and notices for the user; each server has its own time to connect.

        The code of a kind of service is imported once there is one.
        """
        if not config.tools.mcp:
            return [], []
        tools: list[Tool] = []
        servers, notices = self._sources.collect()
        if servers or "mcp" in vars(self):
            tools, notices = await self.mcp.tools()
        if self._has_openapi():
            return [*self.openapi.tools(), *tools], [*self.openapi.notices(), *notices]
        return tools, notices

    @cached_property
    def _sources(self) -> ServerSources:
        return ServerSources(self.folder, self.home, os.environ, lambda: self.configured)

    def _has_openapi(self) -> bool:
        """Return whether there are OpenAPI services, or were."""
        return "openapi" in vars(self) or has_services(self.folder, self.configured)
