"""A user with services, for tests of their commands and of their model's calls."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import call
from ipyagent.config import MCPServerConfig
from ipyagent.schema import ToolResult
from ipyagent.services.openapi.services import OpenAPIServices
from ipyagent.services.openapi.transport import system_resolve
from ipyagent.tools.base import Tool


class User:
    """Services for one folder; `names` are hosts that only this user's resolver knows."""

    def __init__(self, folder: Path, *configured: MCPServerConfig, **environ: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.environ = folder, environ
        self.names: dict[str, list[str]] = {}
        self.configured: list[MCPServerConfig] = list(configured)
        self.services = self.restart()

    def restart(self) -> OpenAPIServices:
        """Return the services as the next kernel has them."""
        return OpenAPIServices(
            self.folder, self.folder, self.environ, self.configured, resolve=self._resolve
        )

    @property
    def tools(self) -> dict[str, Tool]:
        return {each.name: each for each in self.services.tools()}

    def call(self, name: str, /, **arguments: Any) -> ToolResult:
        """Check, show and run a call, as after its approval.

        Arguments of an operation are put where they belong, as a model does it.
        """
        return run(self.tools[name], self.place(name, **arguments))

    def place(self, name: str, /, **given: Any) -> dict[str, Any]:
        """Return the arguments of a request; for an operation, where the request has them."""
        pairs = [(service, each) for service in self.services._registry.all().values()
                 for each in service.operations]  # fmt: skip
        for service, each in pairs:
            if name == f"api_{service.name}_{each.name}":
                path = re.sub(r"{([^}]*)}", lambda part: _encode(given.pop(part[1], "")), each.path)
                body = {"body": given.pop("body")} if "body" in given else {}
                query = {"query": given} if given else {}
                head = {"service": service.name, "method": each.method, "path": path}
                return {**head, **query, **body}
        return given

    def calls(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Return a model's call of an operation."""
        return call("api_request", **self.place(name, **arguments))

    def request(self, method: str, path: str, **more: Any) -> ToolResult:
        """Call the general tool, for the service `s`."""
        return self.call("api_request", service="s", method=method, path=path, **more)

    async def _resolve(self, host: str, port: int) -> list[str]:
        if host in self.names:
            return self.names[host]
        return await system_resolve(host, port)


def _encode(value: Any) -> str:
    parts = value if isinstance(value, list) else [value]
    return ",".join(quote(str(each), safe="", errors="surrogatepass") for each in parts)


def run(tool: Tool, arguments: dict[str, Any]) -> ToolResult:
    """Check, show and run a call; raises whatever it raises."""
    checked = tool.check_arguments(arguments)
    tool.preview(**checked)
    result: ToolResult = asyncio.run(tool(**tool.check_arguments(arguments)))
    return result
