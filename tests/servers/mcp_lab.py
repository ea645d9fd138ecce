"""A folder with MCP servers in it: real programs, started by the product."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ipyagent.config import MCPServerConfig
from ipyagent.services.mcp import ServerSources
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.tools.base import Tool

HERE = Path(__file__).parent
RAW, SDK = HERE / "mcp_raw.py", HERE / "mcp_sdk.py"


class MCPLab:
    """Between `with` and its end, after which no server is left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        self.environ = {**os.environ, "SOME_API_KEY": "sk-canary-7"}
        self.configured: list[MCPServerConfig] = []
        """Those of the kernel that was made last; tests change them."""
        self._made: list[MCPServers] = []

    def words(self, how: str) -> list[str]:
        """The command that starts a raw server."""
        return [sys.executable, "-IS", str(RAW), how, str(self.root / f"{how}.log"), str(self.flag)]

    @property
    def flag(self) -> Path:
        """The file that makes `mutates…` servers change."""
        return self.root / "flag"

    def raw(self, how: str, name: str = "raw", **more: Any) -> MCPServerConfig:
        """A server that behaves like that, impatiently waited for."""
        command, *args = self.words(how)
        patience = {"connect_timeout": 5, "execute_timeout": 5, **more}
        return MCPServerConfig(name=name, command=command, args=args, **patience)

    def sdk(self) -> MCPServerConfig:
        """The SDK's own, as a program."""
        return MCPServerConfig(name="demo", command=sys.executable, args=[str(SDK)])

    def servers(self, *configs: MCPServerConfig) -> MCPServers:
        """All servers of a kernel that is new to the folder."""
        self.configured = configured = list(configs)
        made = MCPServers(ServerSources(self.home, self.home, self.environ, configured))
        self._made.append(made)
        return made

    async def tools(self, *configs: MCPServerConfig) -> dict[str, Tool]:
        """The tools of such servers by name; nothing to tell about them."""
        tools, notices = await self.servers(*configs).tools()
        assert notices == [], notices
        return named(tools)

    def heard(self, how: str, method: str | None = None) -> list[dict[str, Any]]:
        """What a raw server was told, as it arrived; the first is its environment."""
        log = self.root / f"{how}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        said = [json.loads(line) for line in lines]
        return said if method is None else [m for m in said if m.get("method") == method]

    def __enter__(self) -> MCPLab:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._made:
            each.close()


def named(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by name."""
    return {each.name: each for each in tools}


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"
    return True
