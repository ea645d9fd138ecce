"""The settings that a folder brings along, and whether the person trusts them.

Trust is of a folder and of its settings as they were: changed settings are strangers again. It is
kept in the person's own directory, never in the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ipyagent.config import mcp_json
from ipyagent.config.keys import leaves, text_of, told
from ipyagent.config.mcp_json import ListedServer, listed_servers
from ipyagent.config.personal import PersonalFile, folder_name
from ipyagent.config.sources import Layer, checked, content, parse_yaml
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict

PYPROJECT, YAML = "pyproject.toml", "ipyagent.yaml"

_TRUSTED = PersonalFile("trust.json")


def trust_file() -> Path:
    """Where the trusted folders are listed; it need not exist."""
    return _TRUSTED.path


@dataclass(frozen=True)
class Brought:
    """The settings in a folder, and the digest by which they are known again, if they can be."""

    layers: tuple[Layer, ...]
    digest: str
    servers: tuple[ListedServer, ...] = ()
    problems: tuple[str, ...] = ()
    """Why lists of servers cannot be read; whoever needs no servers need not know."""
    unreadable: tuple[str, ...] = ()
    """Why files with settings cannot be read; nothing of those is used."""


def brought(folder: Path) -> Brought:
    """What the folder's files say, read once so that what is judged is what is used."""
    unreadable: list[str] = []
    table, _ = _read(folder / PYPROJECT, _tool_table, unreadable)
    values, data = _read(folder / YAML, lambda data: parse_yaml(data, YAML), unreadable)
    layers = (
        Layer(f"{PYPROJECT} [tool.ipyagent]", table, trusted=False, folder=folder),
        Layer(YAML, values, trusted=False, folder=folder),
    )
    # Of pyproject.toml only our table counts: the rest of it changes all the time.
    digest = hashlib.sha256(json.dumps(table, sort_keys=True, default=str).encode())
    digest.update(b"\0" + data)
    servers: list[ListedServer] = []
    problems = []
    for name in mcp_json.NAMES:
        try:
            listing = content(folder / name, name)
            if listing:
                digest.update(f"\0{name}\0{hashlib.sha256(listing).hexdigest()}".encode())
            servers += listed_servers(listing, name)
        except ConfigError as error:
            problems.append(str(error))
    known_as = "" if unreadable else digest.hexdigest()
    return Brought(layers, known_as, tuple(servers), tuple(problems), tuple(unreadable))


def _read(
    path: Path, parse: Callable[[bytes], JsonDict], problems: list[str]
) -> tuple[JsonDict, bytes]:
    """Return the values and the bytes of a file; what is wrong with it is added to the problems."""
    data = b""
    try:
        data = content(path, path.name)
        return parse(data), data
    except ConfigError as error:
        problems.append(str(error))
        return {}, data


def workspace_layers(folder: Path) -> tuple[Layer, ...]:
    """The values in a folder's pyproject.toml and ipyagent.yaml, trusted or not."""
    found = brought(folder)
    listed, problem = _listed()
    trusted = listed.get(folder_name(folder)) == found.digest
    notices = [f"{each}. Nothing of it is used until then." for each in found.unreadable]
    if problem and any(layer.values for layer in found.layers):
        notices.append(problem)
    first, *others = (replace(layer, trusted=trusted) for layer in found.layers)
    return replace(first, notices=tuple(notices)), *others


def workspace_servers(folder: Path) -> tuple[tuple[ListedServer, ...], bool, tuple[str, ...]]:
    """The servers in a folder's mcp.json, whether they are trusted, and what cannot be read."""
    found = brought(folder)
    trusted = _listed()[0].get(folder_name(folder)) == found.digest
    return found.servers, trusted, found.problems


def is_trusted(folder: Path) -> bool:
    """Whether the person trusts the folder's settings as they are now."""
    return _listed()[0].get(folder_name(folder)) == brought(folder).digest


def trust(folder: Path) -> str:
    """Trust the folder's settings as they are now; the answer says which those are."""
    found = brought(folder)
    if found.unreadable:
        raise ConfigError(f"nothing is trusted: {'; '.join(found.unreadable)}")
    rows = [
        f"  {told('.'.join(key))} = {text_of(value)}   ({layer.source})"
        for layer in found.layers
        for key, value in leaves(checked(layer), given=True)
    ]
    rows += [f"  MCP server {told(each.name)}: {each}   ({each.source})" for each in found.servers]
    if not rows:
        nothing = f"{folder} brings no settings along, so there is nothing to trust."
        return "\n".join([nothing, *found.problems])
    _TRUSTED.change(lambda listed: {**_digests(listed), folder_name(folder): found.digest})
    return "\n".join(
        [
            f"From now on you trust these settings of {folder}:",
            *rows,
            *found.problems,
            "When one of them is changed, they are ignored again until you say so once more.",
        ]
    )


def distrust(folder: Path) -> None:
    """Take the folder off the list."""
    name = folder_name(folder)
    if name in _listed()[0]:
        _TRUSTED.change(lambda listed: {k: v for k, v in listed.items() if k != name})


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


def _listed() -> tuple[dict[str, str], str | None]:
    """The trusted folders with their digests, and what is wrong with the list."""
    try:
        listed = _TRUSTED.read()
        if _digests(listed) == listed:
            return listed, None
    except ConfigError:
        pass
    return {}, (
        f"{_TRUSTED.path}, the list of folders that you trust, cannot be read, so none is "
        "trusted. `%agent trust` begins a new list."
    )


def _digests(listed: JsonDict) -> dict[str, str]:
    return {name: each for name, each in listed.items() if isinstance(each, str)}
