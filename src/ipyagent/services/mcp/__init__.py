"""MCP servers: the sources that name them, and the user's approvals of their tools.

Sources are settings, `%agent mcp add` and `mcp.json` files; the first that names a server wins.

A server may silently change the description of a tool later. So each tool is stored as it was first
seen, in the user's own directory, and a changed or new one is not used until the user approves it.
A server that is started differently counts as another server.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from ipyagent.config import MCPServerConfig
from ipyagent.config.settings import snapshot, stamp_files
from ipyagent.config.sources import UserDataFile, config_folder, read_config_file
from ipyagent.config.trust import ListedServer, parse_servers, workspace_servers
from ipyagent.digests import digest_json, digest_text
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping, object_of
from ipyagent.plaintext import cite, limit_lines, visible

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


class NamedServers(NamedTuple):
    """The servers by name, and notices for the user about what their sources name besides."""

    named: Mapping[str, NamedServer]
    notices: Sequence[str]
    switches: Mapping[str, bool] | None = MappingProxyType({})
    """The servers that were switched on or off; None if that is unknown: then none is used."""


class ServerSources:
    """All sources of servers of a folder, in order of precedence.

    The user's choices with `%agent mcp` are stored in the user's own directory.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        environ: Mapping[str, str],
        configured: Iterable[MCPServerConfig] = (),
    ) -> None:
        self.home, self.environ = home, environ
        self._folder, self._configured = folder, configured
        # Not mcp.json: on some systems settings and data are in one directory.
        self._choices = UserDataFile("mcp-servers.json")
        self._collected: tuple[object, NamedServers] | None = None

    def collect(self) -> NamedServers:
        """Return the servers; files are read again only when one of them has changed."""
        now = (
            snapshot(self.environ, self.home),
            stamp_files((self._choices.path, own_file())),
            tuple(self._configured),
        )
        if self._collected is None or self._collected[0] != now:
            self._collected = now, self._read_sources()
        return self._collected[1]

    def choose(self, key: Literal["servers", "active"], name: str, value: object) -> None:
        """Store a server that was added, or a switch, by its name; None removes it."""

        def apply_choice(mine: JsonDict) -> JsonDict:
            entries = {**object_of(mine.get(key)), name: value}
            return {**mine, key: {k: v for k, v in entries.items() if v is not None}}

        self._choices.rewrite_of(self._folder, apply_choice)

    def _read_sources(self) -> NamedServers:
        notices: list[str] = []
        servers: dict[str, NamedServer] = {}
        for each in self._iter_servers(notices):
            if (first := servers.setdefault(each.name, each)) is not each:
                notices.append(
                    f"{cite(each.source)}: the MCP server {cite(each.name)} is left out, because "
                    f"{cite(first.source)} names one of the same name."
                )
        try:
            active = object_of(self._choices.read_of(self._folder).get("active"))
        except ConfigError:  # reported already: the same file holds the added servers
            return NamedServers(servers, notices, None)
        switches = {name: on for name, on in active.items() if isinstance(on, bool)}
        return NamedServers(servers, notices, switches)

    def _iter_servers(self, notices: list[str]) -> Iterator[NamedServer]:
        for config in self._configured:
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
        added = object_of(self._choices.read_of(self._folder).get("servers"))
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
    values = config.model_dump(include={"command", "args", "url", "cwd"})
    values["env"] = dict.fromkeys(config.env, "")
    description = str(ListedServer(config.name, SETTINGS, values))
    return NamedServer(config.name, SETTINGS, description, lambda: config, config.disabled)


Description = JsonMapping
"""A server's description of one tool: name, title, description, schemas, annotations."""

_MAX_STORED = 4_000_000  # bytes of descriptions that are kept to compare with
_MAX_DIFF_LINES = 400


def identity(config: MCPServerConfig) -> str:
    """Return a digest that identifies a server: its command or address, and its secrets' names."""
    parts = [
        config.name, config.command, config.args, config.url, str(config.cwd), config.transport,
        sorted(config.env), sorted({*config.headers, *config.header_env}), config.token_env,
    ]  # fmt: skip
    return digest_json(parts)


class Pins:
    """The approved tools of one server."""

    def __init__(self, config: MCPServerConfig) -> None:
        self._server = identity(config)
        self._file = UserDataFile(f"mcp-tools/{self._server[:32]}.json", 2 * _MAX_STORED)
        self._approved: dict[str, str] = {}  # digests by the tool's name
        self._approved_texts: dict[str, str] = {}
        self._known = False  # the server was seen before
        self.problem: str | None = None

    def digest(self, tool: Description) -> str:
        """Return a digest of the server's identity and its description of a tool."""
        return digest_text(f"{self._server}\0{json.dumps(tool, sort_keys=True)}")

    def load(self, tools: Mapping[str, Description]) -> None:
        """Load the approved tools; approve these of a server that is seen for the first time.

        If they cannot be read, none is approved.
        """
        try:
            data = self._file.read()
        except ConfigError as error:
            self.problem, self._known, self._approved = str(error), True, {}
            return
        if data:
            self._apply(data)
        elif not self._known:
            self.approve(tools, unless_known=True)

    def approve(self, tools: Mapping[str, Description], *, unless_known: bool = False) -> None:
        """Approve the tools as they are now, unless another kernel has approved others already."""
        readable = {name: _format_description(tool) for name, tool in tools.items()}
        new: JsonDict = {
            "tools": {name: self.digest(tool) for name, tool in tools.items()},
            "texts": readable if len(json.dumps(readable)) <= _MAX_STORED else {},
        }
        try:
            self._file.rewrite(lambda before: before if unless_known and before else new)
            self._apply(self._file.read())
            self.problem = None
        except ConfigError as error:
            self._apply(new)
            self.problem = f"{error}; approvals hold for this kernel only"

    def changed_tools(self, tools: Mapping[str, Description]) -> list[str]:
        """Return the names of tools that are new or differ from the approved ones."""
        return [n for n, tool in tools.items() if self._approved.get(n) != self.digest(tool)]

    def difference(self, tools: Mapping[str, Description]) -> str:
        """Return the changes as a diff, with all characters visible."""
        lines: list[str] = []
        for name in self.changed_tools(tools):
            before = self._approved_texts.get(name, "").splitlines()
            after = _format_description(tools[name]).splitlines()
            old, new = ("approved", "now") if name in self._approved else ("not there", "new")
            label = f"{name!r}"
            lines += difflib.unified_diff(
                before, after, f"{label} {old}", f"{label} {new}", lineterm="", n=1
            )
        return visible("\n".join(limit_lines(lines, _MAX_DIFF_LINES, "… and {} more lines")))

    def _apply(self, data: JsonDict) -> None:
        self._known = True
        self._approved = dict(object_of(data.get("tools")))
        readable = object_of(data.get("texts"))
        self._approved_texts = {name: str(text) for name, text in readable.items()}


def _format_description(tool: Description) -> str:
    """Return a tool's description as comparable lines; `difference` makes them visible."""
    rest = {key: value for key, value in tool.items() if key != "description"}
    description = str(tool.get("description") or "")
    return f"{description}\n{json.dumps(rest, indent=1, sort_keys=True, ensure_ascii=False)}"
