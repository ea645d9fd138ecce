"""Sources that name servers: settings, `%agent mcp add`, `mcp.json` files. The first wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ipyagent.config import MCPServerConfig
from ipyagent.config.settings import snapshot, stamp_files
from ipyagent.config.sources import UserDataFile, config_folder, read_config_file
from ipyagent.config.trust import ListedServer, parse_servers, workspace_servers
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, object_of
from ipyagent.plaintext import cite

SETTINGS, ADDED = "mcp.servers", "%agent mcp add"


def own_file() -> Path:
    """Return the path of the user's own mcp.json; it need not exist."""
    return config_folder() / "mcp.json"


@dataclass(frozen=True)
class NamedServer:
    """A server named by a source."""

    name: str
    source: str
    description: str
    """The exact command or address."""
    config: Callable[[], MCPServerConfig]
    """Returns its configuration; raises ConfigError if a value is missing."""
    disabled: bool = False
    trusted: bool = True


@dataclass
class ServerChoices:
    """The user's choices with `%agent mcp` in one folder, stored in the user's own directory."""

    folder: Path

    def __post_init__(self) -> None:
        # Not mcp.json: on some systems settings and data are in one directory.
        self.file = UserDataFile("mcp-servers.json")

    def load(self) -> JsonDict:
        """Return all of them; raises ConfigError."""
        return self.file.read_of(self.folder)

    def load_switches(self) -> dict[str, bool]:
        """Return the servers that were switched on or off; raises ConfigError."""
        active = object_of(self.load().get("active"))
        return {name: on for name, on in active.items() if isinstance(on, bool)}

    def add(self, name: str, values: Mapping[str, object]) -> None:
        """Add a server."""
        self._change("servers", name, dict(values))

    def remove(self, name: str) -> None:
        """Remove a server."""
        self._change("servers", name, None)
        self.switch(name, None)

    def switch(self, name: str, on: bool | None) -> None:
        """Switch a server on or off; None restores what its source says."""
        self._change("active", name, on)

    def _change(self, key: str, name: str, value: object) -> None:
        def apply_change(mine: JsonDict) -> JsonDict:
            entries = {**object_of(mine.get(key)), name: value}
            return {**mine, key: {k: v for k, v in entries.items() if v is not None}}

        self.file.rewrite_of(self.folder, apply_change)


class NamedServers(NamedTuple):
    """The servers by name, and notices for the user about what their sources name besides."""

    named: Mapping[str, NamedServer]
    notices: Sequence[str]


@dataclass
class ServerSources:
    """All sources of servers, in order of precedence."""

    folder: Path
    home: Path
    environ: Mapping[str, str]
    configured: Iterable[MCPServerConfig] = ()

    def __post_init__(self) -> None:
        self.choices = ServerChoices(self.folder)
        self._collected: tuple[object, NamedServers] | None = None

    def collect(self) -> NamedServers:
        """Return the servers; files are read again only when one of them has changed."""
        now = (
            snapshot(self.environ, self.home),
            stamp_files((self.choices.file.path, own_file())),
            tuple(self.configured),
        )
        if self._collected is None or self._collected[0] != now:
            self._collected = now, self._read_sources()
        return self._collected[1]

    def _read_sources(self) -> NamedServers:
        notices: list[str] = []
        servers: dict[str, NamedServer] = {}
        for each in self._iter_servers(notices):
            if (first := servers.get(each.name)) is None:
                servers[each.name] = each
            else:
                notices.append(
                    f"{cite(each.source)}: the MCP server {cite(each.name)} is left out, because "
                    f"{cite(first.source)} names one of the same name."
                )
        return NamedServers(servers, notices)

    def _iter_servers(self, notices: list[str]) -> Iterator[NamedServer]:
        for config in self.configured:
            if config.kind == "mcp":
                yield _from_settings(config)
        yield from self._read_list(self._read_added, notices)
        yield from self._read_list(self._read_own, notices)
        yield from self._folder_servers(notices)

    def _read_list(
        self, read: Callable[[], Iterable[ListedServer]], notices: list[str]
    ) -> Iterator[NamedServer]:
        try:
            yield from (self._make_named(each) for each in read())
        except ConfigError as error:
            notices.append(f"MCP servers: {error}")

    def _read_added(self) -> Iterable[ListedServer]:
        """Return the added servers, which are stored in mcp.json's format."""
        added = object_of(self.choices.load().get("servers"))
        return [ListedServer(name, ADDED, object_of(each)) for name, each in added.items()]

    def _read_own(self) -> Iterable[ListedServer]:
        return parse_servers(read_config_file(own_file(), str(own_file())), str(own_file()))

    def _folder_servers(self, notices: list[str]) -> Iterator[NamedServer]:
        """Yield the folder's own servers; if it is not trusted, only notices about them."""
        try:
            servers, trusted, problems = workspace_servers(self.home)
        except ConfigError as error:
            notices.append(f"MCP servers of this folder: {error}")
            return
        notices += (f"MCP servers: {each}" for each in problems)
        yield from (self._make_named(each, trusted=trusted) for each in servers)

    def _make_named(self, listed: ListedServer, *, trusted: bool = True) -> NamedServer:
        return NamedServer(
            listed.name,
            listed.source,
            str(listed),
            lambda: listed.to_config(self.environ, self.home),
            listed.values.get("disabled") is True,
            trusted,
        )


def _from_settings(config: MCPServerConfig) -> NamedServer:
    values = {
        "command": config.command,
        "args": list(config.args),
        "url": config.url,
        "env": dict.fromkeys(config.env, ""),
        "cwd": config.cwd,
    }
    description = str(ListedServer(config.name, SETTINGS, values))
    return NamedServer(config.name, SETTINGS, description, lambda: config, config.disabled)
