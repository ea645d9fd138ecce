"""`mcp.json`, the file in which many programs list the MCP servers that they use.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}},
                    "search": {"url": "https://example.org/mcp", "headers": {…}}}}

Some call the outer key `servers`. Keys that mean nothing here are left to those whom they are for.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ipyagent.config.keys import explain, told
from ipyagent.config.sections import MCPServerConfig
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping

NAMES = ("mcp.json", ".mcp.json")
"""What such a file is called in a folder; of two that name the same server, the first counts."""

MOST_SERVERS = 100

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

_TAKEN = ("disabled", "connect_timeout", "execute_timeout", "read_timeout")
_OF_COMMANDS = ("command", "args", "env", "cwd")
_OF_ADDRESSES = ("url", "headers", "header_env", "token_env", "token")


@dataclass(frozen=True)
class ListedServer:
    """A server as a file lists it, with its `${VARIABLES}`."""

    name: str
    source: str
    values: JsonMapping = field(repr=False)

    def __str__(self) -> str:
        """The exact command or address, and the names of what is sent along."""
        values = self.values
        if values.get("command") is not None:
            args = values.get("args") or ()
            words = [values["command"], *(args if isinstance(args, list | tuple) else [args])]
            said = shlex.join(map(str, words))
        else:
            said = str(values.get("url") or "neither a command nor a url")
        for key, word in (("env", "with"), ("headers", "headers"), ("cwd", "in")):
            if given := values.get(key):
                said += f"   {word} {_named(given)}"
        return told(said)

    def config(self, environ: Mapping[str, str], folder: Path) -> MCPServerConfig:
        """The server with its variables filled in; raises ConfigError, which quotes no value."""
        try:
            places = {"workspaceFolder": str(folder), "userHome": str(Path.home())}
            values = _filled(dict(self.values), {**environ, **places})
            return MCPServerConfig.model_validate({"name": self.name, **values})
        except ValidationError as error:
            said = explain(error)
        except ConfigError as error:
            said = str(error)
        raise ConfigError(f"{told(self.source)}: the server {told(self.name)}: {said}")


def listed_servers(data: bytes, source: str) -> tuple[ListedServer, ...]:
    """The servers in such a file; raises ConfigError."""
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
    servers = _table(whole)
    if servers is None:
        raise ConfigError(f'{source}: expected {{"mcpServers": {{NAME: {{…}}}}}}')
    if len(servers) > MOST_SERVERS:
        raise ConfigError(f"{source} lists more than {MOST_SERVERS} servers")
    return tuple(ListedServer(name, source, _known(each)) for name, each in servers.items())


def _table(whole: object) -> JsonDict | None:
    if not isinstance(whole, dict):
        return None
    tables = [whole[key] for key in ("mcpServers", "servers") if key in whole]
    tables = [each for each in tables if isinstance(each, dict)]
    if whole and not tables:
        return None
    return dict(next(filter(None, tables), {}))


def _known(given: object) -> JsonDict:
    """What of it means something here, by our names."""
    if not isinstance(given, dict):
        return {}
    named = {_OTHER_NAMES.get(key, key): value for key, value in given.items()}
    if given.get("httpUrl"):
        named = {"transport": "http", **named, "url": given["httpUrl"]}
    of = _OF_COMMANDS if named.get("command") not in (None, "") else _OF_ADDRESSES
    values = {key: _texts(key, named[key]) for key in (*of, *_TAKEN) if named.get(key) is not None}
    if named.get("enabled") is False:
        values["disabled"] = True
    if isinstance(kind := named.get("transport"), str):
        values["transport"] = _TRANSPORTS.get(kind.lower(), kind)
    if "execute_timeout" not in values and (seconds := _seconds(named.get("timeout"))):
        values["execute_timeout"] = seconds
    return values


def _texts(key: str, given: object) -> Any:
    """Arguments, variables and headers as text; many write numbers and true there."""
    if key in ("args", "env", "headers"):
        if isinstance(given, list):
            return [_text(each) for each in given]
        if isinstance(given, dict):
            return {name: _text(each) for name, each in given.items()}
    return given


def _text(given: object) -> Any:
    if isinstance(given, bool):
        return str(given).lower()
    return str(given) if isinstance(given, int | float) else given


def _seconds(given: object) -> float | None:
    """Some write seconds, up to hours of them, and some milliseconds, at least ten thousand."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given <= 0:
        return None
    return given / 1000 if given >= 10_000 else float(given)


def _filled(value: object, variables: Mapping[str, str]) -> Any:
    """A value of a server's entry with its variables filled in, three levels deep at most."""

    def fill(text: str) -> str:
        return _ANY_VARIABLE.sub(lambda match: _value(match[0], variables), text)

    return _mapped(value, fill, 3)


def _mapped(value: object, fill: Callable[[str], str], levels: int) -> Any:
    if isinstance(value, str):
        return fill(value)
    if levels and isinstance(value, list):
        return [_mapped(each, fill, levels - 1) for each in value]
    if levels and isinstance(value, dict):
        return {key: _mapped(each, fill, levels - 1) for key, each in value.items()}
    return value


def _value(reference: str, variables: Mapping[str, str]) -> str:
    match = _VARIABLE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{told(reference)} cannot be filled in; only ${{VARIABLE}} can")
    name, otherwise = match.groups()
    found = variables.get(name)
    if otherwise is not None:  # as in a shell, also for one that is empty
        found = found or otherwise
    if found is None:
        raise ConfigError(f"the environment variable {told(name)} is not set")
    return found


def _named(given: object) -> str:
    """Names and the variables that they are taken from; values that are written out stay hidden."""
    if not isinstance(given, dict):
        return str(given)
    return " ".join(_pairs(given))


def _pairs(given: Mapping[str, object]) -> Iterator[str]:
    for name, value in given.items():
        yield f"{name}={value}" if _ANY_VARIABLE.search(str(value)) else f"{name}=…"
