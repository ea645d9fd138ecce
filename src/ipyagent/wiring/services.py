"""The services of a folder, which bring tools from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ipyagent.config import Config, MCPServerConfig
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.services.mcp.sources import ServerSources
from ipyagent.services.openapi.stored_services import has_services
from ipyagent.tools.base import Tool

if TYPE_CHECKING:
    from ipyagent.services.mcp.server import Server
    from ipyagent.services.mcp.servers import MCPServers
    from ipyagent.services.openapi.services import OpenAPIServices


@dataclass(frozen=True)
class Services:
    """The services of a folder, for certain settings; `home` is where its settings are.

    `switches` returns those of the notebook, such as `api:shop` and `mcp:files`, at each use.
    """

    folder: Path
    home: Path
    switches: Callable[[], Mapping[str, bool]] = dict
    configured: tuple[MCPServerConfig, ...] = ()
    """The MCP servers of the settings in force."""
    _connected: dict[str, Server] = field(default_factory=dict)
    _seen: dict[str, JsonDict] = field(default_factory=dict)

    def for_run(self, config: Config) -> Services:
        """Return those of a run by its settings, with the same connections."""
        same = config.mcp.servers == self.configured
        return self if same else replace(self, configured=config.mcp.servers)

    @cached_property
    def mcp(self) -> MCPServers:
        """Return its MCP servers."""
        from ipyagent.services.mcp.servers import MCPServers

        live = self._connected, self._seen
        return MCPServers(self.folder, self.home, os.environ, self.configured, self.switches, *live)

    @cached_property
    def openapi(self) -> OpenAPIServices:
        """Return its OpenAPI services."""
        from ipyagent.services.openapi.services import OpenAPIServices

        return OpenAPIServices(self.folder, self.home, os.environ, self.configured, self.switches)

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
        if servers or self._connected:
            tools, notices = await self.mcp.tools()
        if has_services(self.folder, self.configured):
            return [*self.openapi.tools(), *tools], [*self.openapi.notices(), *notices]
        return tools, notices

    @cached_property
    def _sources(self) -> ServerSources:
        return ServerSources(self.folder, self.home, os.environ, self.configured)
