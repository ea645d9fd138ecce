"""A person with services: what they would type, and what their model would call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ipyagent.config import MCPServerConfig
from ipyagent.schema import ToolResult
from ipyagent.services.addresses import system_resolve
from ipyagent.services.openapi import OpenAPIServices
from ipyagent.tools.base import Tool


class Person:
    """Services for one folder; `names` are hosts that only this person's resolver knows."""

    def __init__(self, folder: Path, *configured: MCPServerConfig, **environ: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.environ = folder, environ
        self.names: dict[str, list[str]] = {}
        self.configured: list[MCPServerConfig] = list(configured)
        self.services = self.restarted()

    def restarted(self) -> OpenAPIServices:
        """The same at the next kernel."""
        return OpenAPIServices(
            self.folder, self.folder, self.environ, lambda: self.configured, resolve=self._resolve
        )

    @property
    def tools(self) -> dict[str, Tool]:
        return {each.name: each for each in self.services.tools()}

    def call(self, name: str, /, **arguments: Any) -> ToolResult:
        """What happens to an approved call: checked, shown, run."""
        tool = self.tools[name]
        return run(tool, arguments)

    def request(self, method: str, path: str, **more: Any) -> ToolResult:
        """The same with the general tool, for the service `s`."""
        return self.call("api_request", service="s", method=method, path=path, **more)

    async def _resolve(self, host: str, port: int) -> list[str]:
        if host in self.names:
            return self.names[host]
        return await system_resolve(host, port)


def run(tool: Tool, arguments: dict[str, Any]) -> ToolResult:
    """Check, show and run a call; raises what it raises."""
    checked = tool.check(arguments)
    assert tool.preview is not None
    tool.preview(**checked)
    result: ToolResult = asyncio.run(tool(**tool.check(arguments)))
    return result
