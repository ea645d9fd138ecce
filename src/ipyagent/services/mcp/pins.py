"""What a server's tools were when the person came to trust it.

A server may change what it says about a tool later, when nobody looks. So each tool is kept as it
was first seen, in the person's own directory, and one that is different, or new, waits until the
person has looked at it. A server that is started differently is another server.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipyagent.config import MCPServerConfig
from ipyagent.config.personal import PersonalFile
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.plaintext import visible

Description = JsonMapping
"""What a server says about one tool: name, title, description, schemas and annotations."""

_MOST_TEXT = 150_000  # bytes of packed descriptions; a personal file has a limit
_MOST_LINES = 400


def identity(config: MCPServerConfig) -> str:
    """How a server is known again: what is started or reached, and with which names of secrets."""
    parts = [
        config.name, config.command, config.args, config.url, str(config.cwd), config.transport,
        sorted(config.env), sorted({*config.headers, *config.header_env}), config.token_env,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def digest(server: str, tool: Description) -> str:
    """SHA-256 over a server's identity and all that it says about a tool."""
    return hashlib.sha256(f"{server}\0{_text(tool)}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class Pins:
    """The tools of one server as they were approved."""

    server: str
    approved: dict[str, str] = field(default_factory=dict)
    """Digests by the tool's name."""
    known: bool = False
    """Whether the server was ever seen before."""
    problem: str | None = None
    _was: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._file = PersonalFile(f"mcp-tools/{self.server[:32]}.json")

    def load(self) -> None:
        """Read what was approved; what cannot be read approves nothing."""
        try:
            data = self._file.read()
        except ConfigError as error:
            self.problem, self.known, self.approved = str(error), True, {}
            return
        if data:
            self._take(data)

    def first_seen(self, tools: Mapping[str, Description]) -> None:
        """Approve the tools of a server that is new; where another kernel did, theirs hold."""
        self._keep(tools, lambda before: bool(before))

    def approve(self, tools: Mapping[str, Description]) -> None:
        """Approve the tools as they are now."""
        self._keep(tools, lambda before: False)

    def changed(self, tools: Mapping[str, Description]) -> list[str]:
        """The tools that are not as they were approved."""
        return [n for n, tool in tools.items() if self.approved.get(n) != digest(self.server, tool)]

    def difference(self, tools: Mapping[str, Description]) -> str:
        """What changed, line by line, with nothing hidden."""
        lines: list[str] = []
        for name in self.changed(tools):
            before = self._was.get(name, "").splitlines()
            after = _readable(tools[name]).splitlines()
            old, new = ("approved", "now") if name in self.approved else ("not there", "new")
            shown = f"{name!r}"
            lines += difflib.unified_diff(
                before, after, f"{shown} {old}", f"{shown} {new}", lineterm="", n=1
            )
        more = [f"… and {len(lines) - _MOST_LINES} more lines"] * (len(lines) > _MOST_LINES)
        return visible("\n".join([*lines[:_MOST_LINES], *more]))

    def _keep(self, tools: Mapping[str, Description], stays: Any) -> None:
        new = self._data(tools)
        try:
            self._file.change(lambda before: before if stays(before) else new)
            self._take(self._file.read())
            self.problem = None
        except ConfigError as error:
            self._take(new)
            self.problem = f"{error}; what is approved holds for this kernel only"

    def _data(self, tools: Mapping[str, Description]) -> JsonDict:
        readable = {name: _readable(tool) for name, tool in tools.items()}
        packed = base64.b85encode(zlib.compress(json.dumps(readable).encode(), 9)).decode()
        return {
            "tools": {name: digest(self.server, tool) for name, tool in tools.items()},
            "packed": packed if len(packed) <= _MOST_TEXT else "",
        }

    def _take(self, data: JsonDict) -> None:
        tools = data.get("tools")
        self.known = True
        self.approved = dict(tools) if isinstance(tools, dict) else {}
        self._was = dict(_unpacked(data.get("packed")))


def _unpacked(packed: Any) -> Iterator[tuple[str, str]]:
    try:
        found = json.loads(zlib.decompress(base64.b85decode(packed)))
        yield from ((str(name), str(text)) for name, text in found.items())
    except (ValueError, TypeError, AttributeError, zlib.error):
        return  # there is no old text to compare with


def _text(tool: Description) -> str:
    return json.dumps(tool, sort_keys=True)


def _readable(tool: Description) -> str:
    """A tool's description as lines that can be compared; `visible` comes when they are shown."""
    rest = {key: value for key, value in tool.items() if key != "description"}
    said = str(tool.get("description") or "")
    return f"{said}\n{json.dumps(rest, indent=1, sort_keys=True, ensure_ascii=False)}"
