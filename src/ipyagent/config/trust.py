"""The settings that a folder brings along, and whether the person trusts them.

Trust is of a folder and of its settings as they were: changed settings are strangers again. It is
kept in the person's own directory, never in the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs

from ipyagent.config.keys import leaves, text_of, told
from ipyagent.config.sources import Layer, checked, content, parse_yaml
from ipyagent.errors import ConfigError

PYPROJECT, YAML = "pyproject.toml", "ipyagent.yaml"


def trust_file() -> Path:
    """Where the trusted folders are listed; it need not exist."""
    return platformdirs.user_data_path("ipyagent") / "trust.json"


@dataclass(frozen=True)
class Brought:
    """The settings in a folder, and the digest by which they are known again."""

    layers: tuple[Layer, ...]
    digest: str


def brought(folder: Path) -> Brought:
    """What the folder's two files say, read once so that what is judged is what is used."""
    table = _tool_table(content(folder / PYPROJECT, PYPROJECT))
    data = content(folder / YAML, YAML)
    layers = (
        Layer(f"{PYPROJECT} [tool.ipyagent]", table, trusted=False, folder=folder),
        Layer(YAML, parse_yaml(data, YAML), trusted=False, folder=folder),
    )
    # Of pyproject.toml only our table counts: the rest of it changes all the time.
    text = json.dumps(table, sort_keys=True, default=str).encode()
    return Brought(layers, hashlib.sha256(text + b"\0" + data).hexdigest())


def workspace_layers(folder: Path) -> tuple[Layer, ...]:
    """The values in a folder's pyproject.toml and ipyagent.yaml, trusted or not."""
    found = brought(folder)
    listed, problem = _listed()
    trusted = listed.get(_name(folder)) == found.digest
    notices = (problem,) if problem and any(layer.values for layer in found.layers) else ()
    first, *others = (replace(layer, trusted=trusted) for layer in found.layers)
    return replace(first, notices=notices), *others


def is_trusted(folder: Path) -> bool:
    """Whether the person trusts the folder's settings as they are now."""
    return _listed()[0].get(_name(folder)) == brought(folder).digest


def trust(folder: Path) -> str:
    """Trust the folder's settings as they are now; the answer says which those are."""
    found = brought(folder)
    rows = [
        f"  {told('.'.join(key))} = {text_of(value)}   ({layer.source})"
        for layer in found.layers
        for key, value in leaves(checked(layer), given=True)
    ]
    if not rows:
        return f"{folder} brings no settings along, so there is nothing to trust."
    _write({**_listed()[0], _name(folder): found.digest})
    return "\n".join(
        [
            f"From now on you trust these settings of {folder}:",
            *rows,
            "When one of them is changed, they are ignored again until you say so once more.",
        ]
    )


def distrust(folder: Path) -> None:
    """Take the folder off the list."""
    listed = _listed()[0]
    if listed.pop(_name(folder), None):
        _write(listed)


def _name(folder: Path) -> str:
    return os.path.realpath(folder)


def _tool_table(data: bytes) -> dict[str, Any]:
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
    path = trust_file()
    try:
        listed = json.loads(content(path, str(path)) or b"{}")
        if isinstance(listed, dict) and all(isinstance(each, str) for each in listed.values()):
            return listed, None
    except (ConfigError, ValueError, RecursionError):
        pass
    return {}, (
        f"{path}, the list of folders that you trust, cannot be read, so none is trusted. "
        "`%agent trust` begins a new list."
    )


def _write(listed: dict[str, str]) -> None:
    """Replace the list as a whole: of two processes the last one wins, and none tears it."""
    path = trust_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, new = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump(listed, file, indent=1)
                file.flush()
                os.fsync(fd)
            Path(new).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(new).unlink()
            raise
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}), so nothing was changed; make its "
            "folder writable"
        ) from None
