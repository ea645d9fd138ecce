"""The approved descriptions of a server's tools.

A server may silently change the description of a tool later. So each tool is stored as it was first
seen, in the user's own directory, and a changed or new one is not used until the user approves it.
A server that is started differently counts as another server.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ipyagent.config import MCPServerConfig
from ipyagent.config.sources import UserDataFile
from ipyagent.digests import digest_json, digest_text
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping, object_of
from ipyagent.phrases import limit_lines
from ipyagent.plaintext import visible

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


def digest_tool(server: str, tool: Description) -> str:
    """Return a digest of a server's identity and its description of a tool."""
    return digest_text(f"{server}\0{json.dumps(tool, sort_keys=True)}")


@dataclass
class Pins:
    """The approved tools of one server."""

    server: str
    approved: dict[str, str] = field(default_factory=dict)
    """Digests by the tool's name."""
    known: bool = False
    """True if the server was seen before."""
    problem: str | None = None
    _approved_texts: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._file = UserDataFile(f"mcp-tools/{self.server[:32]}.json", 2 * _MAX_STORED)

    def load(self) -> None:
        """Load the approved tools; if they cannot be read, none is approved."""
        try:
            data = self._file.read()
        except ConfigError as error:
            self.problem, self.known, self.approved = str(error), True, {}
            return
        if data:
            self._apply(data)

    def approve(self, tools: Mapping[str, Description], *, unless_known: bool = False) -> None:
        """Approve the tools as they are now, unless another kernel has approved others already."""
        new = self._serialize(tools)
        try:
            self._file.rewrite(lambda before: before if unless_known and before else new)
            self._apply(self._file.read())
            self.problem = None
        except ConfigError as error:
            self._apply(new)
            self.problem = f"{error}; approvals hold for this kernel only"

    def changed_tools(self, tools: Mapping[str, Description]) -> list[str]:
        """Return the names of tools that are new or differ from the approved ones."""
        return [
            n for n, tool in tools.items() if self.approved.get(n) != digest_tool(self.server, tool)
        ]

    def difference(self, tools: Mapping[str, Description]) -> str:
        """Return the changes as a diff, with all characters visible."""
        lines: list[str] = []
        for name in self.changed_tools(tools):
            before = self._approved_texts.get(name, "").splitlines()
            after = _format_description(tools[name]).splitlines()
            old, new = ("approved", "now") if name in self.approved else ("not there", "new")
            label = f"{name!r}"
            lines += difflib.unified_diff(
                before, after, f"{label} {old}", f"{label} {new}", lineterm="", n=1
            )
        return visible("\n".join(limit_lines(lines, _MAX_DIFF_LINES, "… and {} more lines")))

    def _serialize(self, tools: Mapping[str, Description]) -> JsonDict:
        readable = {name: _format_description(tool) for name, tool in tools.items()}
        return {
            "tools": {name: digest_tool(self.server, tool) for name, tool in tools.items()},
            "texts": readable if len(json.dumps(readable)) <= _MAX_STORED else {},
        }

    def _apply(self, data: JsonDict) -> None:
        self.known = True
        self.approved = dict(object_of(data.get("tools")))
        readable = object_of(data.get("texts"))
        self._approved_texts = {name: str(text) for name, text in readable.items()}


def _format_description(tool: Description) -> str:
    """Return a tool's description as comparable lines; `difference` makes them visible."""
    rest = {key: value for key, value in tool.items() if key != "description"}
    description = str(tool.get("description") or "")
    return f"{description}\n{json.dumps(rest, indent=1, sort_keys=True, ensure_ascii=False)}"
