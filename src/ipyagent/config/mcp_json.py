"""`mcp.json`, the file in which many programs list their MCP servers.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}},
                    "search": {"url": "https://example.org/mcp", "headers": {…}}}}

Some programs call the outer key `servers`. Keys unknown here are ignored: they are for others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ipyagent.config.keys import explain_error
from ipyagent.config.sections import MCPServerConfig
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.plaintext import cite

FILE_NAMES = ("mcp.json", ".mcp.json")
"""Names of such files in a folder; if both name the same server, the first one counts."""

MAX_SERVERS = 100

_VARIABLE = re.compile(r"\$\{(?:env:)?([^}:]*)(?::-([^}]*))?\}")

_ANY_VARIABLE = re.compile(r"\$\{[^}]*\}")

_TRANSPORTS = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "sse": "sse",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
}

_OTHER_NAMES = {"serverUrl": "url", "type": "transport", "sse_read_timeout": "read_timeout"}

_COMMON_KEYS = ("disabled", "connect_timeout", "execute_timeout", "read_timeout")
_COMMAND_KEYS = ("command", "args", "env", "cwd")
_ADDRESS_KEYS = ("url", "headers", "header_env", "token_env", "token")


@dataclass(frozen=True)
class ListedServer:
    """A server as a file lists it, with its `${VARIABLES}`."""

    name: str
    source: str
    values: JsonMapping = field(repr=False)

    def __str__(self) -> str:
        """Return the exact command or address, and the names of headers and variables."""
        values = self.values
        if values.get("command") is not None:
            args = values.get("args") or ()
            words = [values["command"], *(args if isinstance(args, list | tuple) else [args])]
            command_line = shlex.join(map(str, words))
        else:
            command_line = str(values.get("url") or "neither a command nor a url")
        for key, word in (("env", "with"), ("headers", "headers"), ("cwd", "in")):
            if given := values.get(key):
                command_line += f"   {word} {_mask_values(given)}"
        return cite(command_line)

    def to_config(self, environ: Mapping[str, str], folder: Path) -> MCPServerConfig:
        """Return the server with its variables filled in; raises ConfigError without any value."""
        try:
            places = {"workspaceFolder": str(folder), "userHome": str(Path.home())}
            values = _fill_variables(dict(self.values), {**environ, **places})
            return MCPServerConfig.model_validate({"name": self.name, **values})
        except ValidationError as error:
            problem = explain_error(error)
        except ConfigError as error:
            problem = str(error)
        raise ConfigError(f"{cite(self.source)}: the server {cite(self.name)}: {problem}")


def parse_servers(data: bytes, source: str) -> tuple[ListedServer, ...]:
    """Parse such a file; raises ConfigError."""
    if not data.strip():
        return ()
    try:
        whole = json.loads(data)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{source} is not JSON: look at line {error.lineno}, column {error.colno}; comments "
            "and commas after the last item are not JSON"
        ) from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{source} is not JSON: a value in it cannot be read") from None
    servers = _server_table(whole)
    if servers is None:
        raise ConfigError(f'{source}: expected {{"mcpServers": {{NAME: {{…}}}}}}')
    if len(servers) > MAX_SERVERS:
        raise ConfigError(f"{source} lists more than {MAX_SERVERS} servers")
    return tuple(
        ListedServer(name, source, _normalize_entry(each)) for name, each in servers.items()
    )


def _server_table(whole: object) -> JsonDict | None:
    if not isinstance(whole, dict):
        return None
    tables = [whole[key] for key in ("mcpServers", "servers") if key in whole]
    tables = [each for each in tables if isinstance(each, dict)]
    if whole and not tables:
        return None
    return dict(next(filter(None, tables), {}))


def _normalize_entry(entry: object) -> JsonDict:
    """Return the known keys of an entry, by our names."""
    if not isinstance(entry, dict):
        return {}
    named = {_OTHER_NAMES.get(key, key): value for key, value in entry.items()}
    if entry.get("httpUrl"):
        named = {"transport": "http", **named, "url": entry["httpUrl"]}
    of = _COMMAND_KEYS if named.get("command") not in (None, "") else _ADDRESS_KEYS
    values = {
        key: _stringify_values(key, named[key])
        for key in (*of, *_COMMON_KEYS)
        if named.get(key) is not None
    }
    if named.get("enabled") is False:
        values["disabled"] = True
    if isinstance(kind := named.get("transport"), str):
        values["transport"] = _TRANSPORTS.get(kind.lower(), kind)
    if "execute_timeout" not in values and (seconds := _parse_seconds(named.get("timeout"))):
        values["execute_timeout"] = seconds
    return values


def _stringify_values(key: str, values: object) -> object:
    """Return arguments, variables and headers as text; many files have numbers or true there."""
    if key in ("args", "env", "headers"):
        if isinstance(values, list):
            return [_stringify(each) for each in values]
        if isinstance(values, dict):
            return {name: _stringify(each) for name, each in values.items()}
    return values


def _stringify(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _parse_seconds(value: object) -> float | None:
    """Return seconds; numbers from ten thousand are taken for milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return value / 1000 if value >= 10_000 else float(value)


def _fill_variables(value: object, variables: Mapping[str, str]) -> Any:
    """Fill in the variables of a server's value, at most three levels deep."""

    def substitute(text: str) -> str:
        return _ANY_VARIABLE.sub(lambda match: _variable_value(match[0], variables), text)

    return _map_strings(value, substitute, 3)


def _map_strings(value: object, function: Callable[[str], str], levels: int) -> object:
    if isinstance(value, str):
        return function(value)
    if levels and isinstance(value, list):
        return [_map_strings(each, function, levels - 1) for each in value]
    if levels and isinstance(value, dict):
        return {key: _map_strings(each, function, levels - 1) for key, each in value.items()}
    return value


def _variable_value(reference: str, variables: Mapping[str, str]) -> str:
    match = _VARIABLE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{cite(reference)} cannot be filled in; only ${{VARIABLE}} can")
    name, otherwise = match.groups()
    found = variables.get(name)
    if otherwise is not None:  # as in a shell, also for one that is empty
        found = found or otherwise
    if found is None:
        raise ConfigError(f"the environment variable {cite(name)} is not set")
    return found


def _mask_values(values: object) -> str:
    """Return names and variable references; literal values are hidden."""
    if not isinstance(values, dict):
        return str(values)
    shown = {k: value if _ANY_VARIABLE.search(str(value)) else "…" for k, value in values.items()}
    return " ".join(f"{name}={value}" for name, value in shown.items())
