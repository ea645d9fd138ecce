"""Where servers are named: settings, `%agent mcp add`, `mcp.json` files. The first counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ipyagent.config import MCPServerConfig
from ipyagent.config.keys import told
from ipyagent.config.mcp_json import ListedServer, listed_servers
from ipyagent.config.personal import PersonalFile, folder_name
from ipyagent.config.sources import content
from ipyagent.config.trust import workspace_servers
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict

SETTINGS, ADDED = "mcp.servers", "%agent mcp add"


def own_file() -> Path:
    """The person's own mcp.json; it need not exist."""
    return platformdirs.user_config_path("ipyagent") / "mcp.json"


@dataclass(frozen=True)
class Named:
    """A server that some source names."""

    name: str
    source: str
    shown: str
    """The exact command or address."""
    config: Callable[[], MCPServerConfig]
    """Raises ConfigError where something is missing."""
    disabled: bool = False
    trusted: bool = True


@dataclass
class Choices:
    """What the person decided with `%agent mcp` in one folder, kept in their own directory."""

    folder: Path

    def __post_init__(self) -> None:
        # Not mcp.json: on some systems settings and data are in one directory.
        self._file = PersonalFile("mcp-servers.json")

    def added(self) -> JsonDict:
        """The servers that were added, as mcp.json has them; raises ConfigError."""
        return _table(self._mine().get("servers"))

    def active(self) -> dict[str, bool]:
        """The servers that were switched on or off; raises ConfigError."""
        return {k: v for k, v in _table(self._mine().get("active")).items() if isinstance(v, bool)}

    def add(self, name: str, values: Mapping[str, object]) -> None:
        """Keep a server."""
        self._change("servers", name, dict(values))

    def remove(self, name: str) -> None:
        """Forget a server."""
        self._change("servers", name, None)
        self.switch(name, None)

    def switch(self, name: str, on: bool | None) -> None:
        """Switch it on or off, or leave that to whoever names it."""
        self._change("active", name, on)

    def _mine(self) -> JsonDict:
        return _table(self._file.read().get(folder_name(self.folder)))

    def _change(self, key: str, name: str, value: object) -> None:
        def edit(data: JsonDict) -> JsonDict:
            mine = _table(data.get(folder_name(self.folder)))
            kept = {**_table(mine.get(key)), name: value}
            mine[key] = {k: v for k, v in kept.items() if v is not None}
            return {**data, folder_name(self.folder): mine}

        self._file.change(edit)


@dataclass
class Sources:
    """All that name servers, in the order in which they count."""

    folder: Path
    home: Path
    environ: Mapping[str, str]
    configured: Callable[[], Iterable[MCPServerConfig]]

    def __post_init__(self) -> None:
        self.choices = Choices(self.folder)

    def named(self) -> tuple[dict[str, Named], list[str]]:
        """The servers by name, and what the person should know about the others."""
        notices: list[str] = []
        servers: dict[str, Named] = {}
        for each in self._all(notices):
            if (first := servers.get(each.name)) is None:
                servers[each.name] = each
            else:
                notices.append(
                    f"{told(each.source)}: the MCP server {told(each.name)} is left out, because "
                    f"{told(first.source)} names one of the same name."
                )
        return servers, notices

    def _all(self, notices: list[str]) -> Iterator[Named]:
        for config in self.configured():
            if config.kind == "mcp":
                yield _of_settings(config)
        yield from self._listed(lambda: self._read_added(), notices)
        yield from self._listed(lambda: self._read_own(), notices)
        yield from self._of_folder(notices)

    def _listed(
        self, read: Callable[[], Iterable[ListedServer]], notices: list[str]
    ) -> Iterator[Named]:
        try:
            yield from (self._named(each) for each in read())
        except ConfigError as error:
            notices.append(f"MCP servers: {error}")

    def _read_added(self) -> Iterable[ListedServer]:
        added = self.choices.added()
        return [ListedServer(name, ADDED, _table(each)) for name, each in added.items()]

    def _read_own(self) -> Iterable[ListedServer]:
        return listed_servers(content(own_file(), str(own_file())), str(own_file()))

    def _of_folder(self, notices: list[str]) -> Iterator[Named]:
        """Those that the folder itself names; it is trusted, or they are only told about."""
        try:
            servers, trusted, problems = workspace_servers(self.home)
        except ConfigError as error:
            notices.append(f"MCP servers of this folder: {error}")
            return
        notices += (f"MCP servers: {each}" for each in problems)
        yield from (self._named(each, trusted=trusted) for each in servers)

    def _named(self, listed: ListedServer, *, trusted: bool = True) -> Named:
        return Named(
            listed.name,
            listed.source,
            str(listed),
            lambda: listed.config(self.environ, self.home),
            listed.values.get("disabled") is True,
            trusted,
        )


def _of_settings(config: MCPServerConfig) -> Named:
    values = {
        "command": config.command,
        "args": list(config.args),
        "url": config.url,
        "env": dict.fromkeys(config.env, ""),
        "cwd": config.cwd,
    }
    shown = str(ListedServer(config.name, SETTINGS, values))
    return Named(config.name, SETTINGS, shown, lambda: config, config.disabled)


def _table(value: object) -> JsonDict:
    return dict(value) if isinstance(value, dict) else {}
