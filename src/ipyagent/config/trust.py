"""The settings and MCP servers that a folder brings along, and whether the user trusts them.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}},
                    "search": {"url": "https://example.org/mcp", "headers": {…}}}}

Some programs call the outer key `servers`. Keys unknown here are ignored: they are for others.

Trust covers a folder and its settings as they were: changed settings are untrusted again. It is
stored in the user's own directory, never in the folder.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ipyagent.config import sections, sources
from ipyagent.config.rules import PARTIAL
from ipyagent.digests import digest_bytes
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.plaintext import cite

MCP_FILE_NAMES = ("mcp.json", ".mcp.json")
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

    def to_config(self, environ: Mapping[str, str], folder: Path) -> sections.MCPServerConfig:
        """Return the server with its variables filled in; raises ConfigError without any value."""
        try:
            places = {"workspaceFolder": str(folder), "userHome": str(Path.home())}
            values = _fill_variables(dict(self.values), {**environ, **places})
            return sections.MCPServerConfig.model_validate({"name": self.name, **values})
        except ValidationError as error:
            problem = sections.explain_error(error)
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


PYPROJECT, YAML = "pyproject.toml", "ipyagent.yaml"

TRUST_FILE = sources.UserDataFile("trust.json")
"""The list of trusted folders; it need not exist."""


@dataclass(frozen=True)
class FolderSettings:
    """The settings in a folder, with their digest if they can be read."""

    layers: tuple[sources.Layer, ...]
    digest: str
    servers: tuple[ListedServer, ...] = ()
    problems: tuple[str, ...] = ()
    """Why lists of servers cannot be read; this matters only if servers are used."""
    unreadable: tuple[str, ...] = ()
    """Why files with settings cannot be read; nothing of those is used."""


def read_folder_settings(folder: Path) -> FolderSettings:
    """Read the folder's files once, so that the judged text is the one in use."""
    unreadable: list[str] = []
    table, _ = _read_values(folder / PYPROJECT, _tool_table, unreadable)
    values, data = _read_values(
        folder / YAML, lambda data: sources.parse_yaml(data, YAML), unreadable
    )
    layers = (
        sources.Layer(f"{PYPROJECT} [tool.ipyagent]", table, trusted=False, folder=folder),
        sources.Layer(YAML, values, trusted=False, folder=folder),
    )
    # Of pyproject.toml only our table counts: the rest of it changes all the time.
    read = [json.dumps(table, sort_keys=True, default=str).encode(), data]
    servers: list[ListedServer] = []
    problems = []
    for name in MCP_FILE_NAMES:
        try:
            listing = sources.read_config_file(folder / name, name)
            if listing:
                read += [name.encode(), digest_bytes(listing).encode()]
            servers += parse_servers(listing, name)
        except ConfigError as error:
            problems.append(str(error))
    known_as = "" if unreadable else digest_bytes(b"\0".join(read))
    return FolderSettings(layers, known_as, tuple(servers), tuple(problems), tuple(unreadable))


def _read_values(
    path: Path, parse: Callable[[bytes], JsonDict], problems: list[str]
) -> tuple[JsonDict, bytes]:
    """Return the values and the bytes of a file; its problems are added to `problems`."""
    data = b""
    try:
        data = sources.read_config_file(path, path.name)
        return parse(data), data
    except ConfigError as error:
        problems.append(str(error))
        return {}, data


def workspace_layers(folder: Path) -> tuple[sources.Layer, ...]:
    """Return the values in a folder's pyproject.toml and ipyagent.yaml, trusted or not."""
    settings = read_folder_settings(folder)
    listed, problem = _trusted_folders()
    trusted = listed.get(sources.folder_key(folder)) == settings.digest
    notices = [f"{each}. Nothing of it is used until then." for each in settings.unreadable]
    if problem and any(layer.values for layer in settings.layers):
        notices.append(problem)
    first, *others = (replace(layer, trusted=trusted) for layer in settings.layers)
    return replace(first, notices=tuple(notices)), *others


def workspace_servers(folder: Path) -> tuple[tuple[ListedServer, ...], bool, tuple[str, ...]]:
    """Return a folder's mcp.json servers, whether they are trusted, and what stops their use."""
    settings = read_folder_settings(folder)
    return settings.servers, _is_listed(folder, settings), settings.problems


def is_trusted(folder: Path) -> bool:
    """Return whether the user trusts the folder's settings as they are now."""
    return _is_listed(folder, read_folder_settings(folder))


def _is_listed(folder: Path, settings: FolderSettings) -> bool:
    return _trusted_folders()[0].get(sources.folder_key(folder)) == settings.digest


def trust(folder: Path) -> str:
    """Trust the folder's settings as they are now; return a summary of them."""
    settings = read_folder_settings(folder)
    if settings.unreadable:
        raise ConfigError(f"nothing is trusted: {'; '.join(settings.unreadable)}")
    rows = [
        f"  {cite('.'.join(key))} = {sections.format_value(value)}   ({layer.source})"
        for layer in settings.layers
        for key, value in sections.iter_settings(sources.validate_layer(layer), only_set=True)
    ]
    rows += [
        f"  MCP server {cite(each.name)}: {each}   ({each.source})" for each in settings.servers
    ]
    if not rows:
        nothing = f"{folder} brings no settings along, so there is nothing to trust."
        return "\n".join([nothing, *settings.problems])
    TRUST_FILE.rewrite(
        lambda listed: {**_valid_digests(listed), sources.folder_key(folder): settings.digest}
    )
    return "\n".join(
        [
            f"From now on you trust these settings of {folder}:",
            *rows,
            *settings.problems,
            "When one of them is changed, they are ignored again until you say so once more.",
        ]
    )


def _tool_table(data: bytes) -> JsonDict:
    try:
        table = tomllib.loads(data.decode("utf-8"))
        for name in ("tool", "ipyagent"):
            table = table.get(name, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{PYPROJECT}: [tool.ipyagent] should be a table of sections")
    except (ValueError, RecursionError) as error:
        at = re.search(r"\(at (.*)\)$", str(error))
        where = f": look at {at[1]}" if at else ""
        raise ConfigError(f"{PYPROJECT} is not TOML{where}") from None
    return table


def _trusted_folders() -> tuple[dict[str, str], str | None]:
    """Return the trusted folders with their digests, and the problem with the list, if any."""
    try:
        listed = TRUST_FILE.read()
        if _valid_digests(listed) == listed:
            return listed, None
    except ConfigError:
        pass
    return {}, (
        f"{TRUST_FILE.path}, the list of folders that you trust, cannot be read, so none is "
        "trusted. `%agent trust` begins a new list."
    )


def _valid_digests(listed: JsonDict) -> dict[str, str]:
    return {name: each for name, each in listed.items() if isinstance(each, str)}


_MAX_ROUNDS = 10
"""Rounds of checking and dropping; then all invalid sections are dropped."""


def drop_invalid(layer: sources.Layer) -> sources.Layer:
    """Return the layer without its invalid values, with a notice that names them.

    A downloaded file must not be able to stop ipyagent from working. In the user's own settings,
    and in trusted ones, the same mistake is an error. Keys that contradict each other take their
    section with them.
    """
    values: Any = _copy_values(layer.values)
    problems: list[str] = []
    for _ in range(_MAX_ROUNDS):
        try:
            sections.Config.model_validate(values, context=PARTIAL)
        except ValidationError as error:
            problems.append(sections.explain_error(error))
            values = _drop_errors(values, error)
            continue
        except (ValueError, RecursionError):
            problems.append("it cannot be read")
            values = {}
            continue
        break
    else:
        values = {}
        problems.append("so much is wrong that nothing of it is used")
    if not problems:
        return layer
    notice = f"{layer.source}: invalid settings there are ignored: {'; '.join(problems)}."
    return replace(layer, values=values, notices=(*layer.notices, notice))


def _copy_values(values: Mapping[str, object]) -> object:
    try:
        return deepcopy(dict(values))
    except RecursionError:
        return {}


def _drop_errors(values: Any, error: ValidationError) -> object:
    """Remove the values with errors; the last of a list first, so that indexes stay right."""
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    keys = {_find_invalid(values, each["loc"]) for each in errors}
    if () in keys:
        return {}
    ordered = sorted(keys, key=lambda key: [str(each).rjust(9) for each in key], reverse=True)
    for *above, last in ordered:
        with suppress(LookupError, TypeError):  # gone with its section
            holder = reduce(getitem, above, values)
            del holder[last]
            if holder == []:  # set by nobody then
                del reduce(getitem, above[:-1], values)[above[-1]]
    return values


def _find_invalid(values: object, location: Iterable[object]) -> tuple[Any, ...]:
    """Return as much of a path into the values as exists.

    It ends at an item of a list, which goes as a whole: half of a rule may mean something else.
    """
    key: list[object] = []
    for part in location:
        if isinstance(values, list):
            is_there = isinstance(part, int) and part < len(values)
            return (*key, part) if is_there else tuple(key)
        if not isinstance(values, dict):
            break
        names = [name for name in values if str(name) == str(part)]
        if not names:
            break
        key.append(names[0])
        values = values[names[0]]
    return tuple(key)
