"""Where settings come from: the person's file, the environment, `%agent config`, other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import yaml
from pydantic import ValidationError

from ipyagent.config.keys import ELSEWHERE, elsewhere, explain, leaves, put
from ipyagent.config.kinds import PARTIAL
from ipyagent.config.lines import place_of
from ipyagent.config.policy import PINNED, rule_of
from ipyagent.config.sections import Config
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.plaintext import visible

MAX_BYTES = 250_000  # YAML is slow to read

PREFIX = "IPYAGENT_"

HOMES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
"""The variables that say where a person's own files are."""


@dataclass(frozen=True)
class Layer:
    """Values from one source, as nested sections; `source` is how messages call it.

    What is not `trusted` comes from `folder` and may only make things stricter. `notices` are what
    the person should know about the source. `text` is its file's, to find a line in.
    """

    source: str
    values: JsonMapping = field(repr=False)
    trusted: bool = True
    folder: Path | None = None
    notices: tuple[str, ...] = ()
    text: bytes = field(default=b"", repr=False)


def user_file() -> Path:
    """The person's own configuration file; it need not exist."""
    return platformdirs.user_config_path("ipyagent") / "config.yaml"


def user_layer() -> Layer:
    """The values in the person's own file."""
    return from_file(user_file())


def from_file(path: Path) -> Layer:
    """The values in a YAML file; none if there is no such file."""
    text = content(path, str(path))
    return Layer(str(path), parse_yaml(text, str(path)), text=text)


def content(path: Path, source: str) -> bytes:
    """The bytes of a configuration file; none if there is no such file."""
    try:
        if not path.exists():
            return b""
        if not path.is_file():
            raise ConfigError(f"{source} is not a file; rename or remove it")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{source} cannot be read ({error.strerror}); make it readable or remove it"
        ) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES:,} bytes; settings are not")
    return data


def parse_yaml(data: bytes, source: str) -> JsonDict:
    """The sections in a YAML text; raises ConfigError, which quotes nothing: it may be a key."""
    try:
        values = yaml.safe_load(data.decode("utf-8"))
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark
        where = f"line {at.line + 1}, column {at.column + 1}" if at else "somewhere"
        raise ConfigError(f"{source} is not YAML: look at {where}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{source} is not YAML: a value in it cannot be read") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: expected sections such as `llm:` with keys below them")
    return values


def from_environment(environ: Mapping[str, str], start: Mapping[str, str] | None = None) -> Layer:
    """The values of variables such as IPYAGENT_LLM__API_BASE; IPYAGENT_MODEL is llm.model.

    `start` is the environment that the process began with: pinned keys are taken from there only.
    """
    values: JsonDict = {}
    ignored = set() if start is None else set(late(environ, start))
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in ignored:
            try:
                put(values, _key(name), environ[name])
            except (TypeError, AttributeError):
                raise ConfigError(
                    f"{visible(name)} and a variable for the whole section are both set; "
                    "name single settings, such as IPYAGENT_LLM__MODEL"
                ) from None
    return Layer(f"the environment ({PREFIX}…)", values)


def late(environ: Mapping[str, str], start: Mapping[str, str]) -> list[str]:
    """Variables for pinned keys that were set after the process began, perhaps by a `.env` file."""
    return [
        name
        for name, value in environ.items()
        if name.startswith(PREFIX) and rule_of(_key(name)) in PINNED and start.get(name) != value
    ]


def _key(name: str) -> tuple[str, ...]:
    """The setting that an IPYAGENT_ variable is for."""
    if name == "IPYAGENT_MODEL":
        return ("llm", "model")
    return tuple(name.removeprefix(PREFIX).lower().split("__"))


def check_homes(environ: Mapping[str, str], start: Mapping[str, str] | None) -> None:
    """Raise ConfigError where the person's files were moved since the process began.

    A `.env` file that could do that would bring its own settings as the person's, and its own list
    of trusted folders.
    """
    moved = [name for name in HOMES if start is not None and environ.get(name) != start.get(name)]
    if moved:
        undo = "; ".join(_undoing(name, start or {}) for name in moved)
        raise ConfigError(
            f"{', '.join(moved)} changed after this kernel started, perhaps by a .env file, so it "
            "is not certain which settings are yours. To go on in this kernel, run "
            f"`import os; {undo}` in a cell; otherwise restart the kernel."
        )


def _undoing(name: str, start: Mapping[str, str]) -> str:
    """The statement that gives a variable its first value again."""
    if name in start:
        return f"os.environ[{name!r}] = {start[name]!r}"
    return f"os.environ.pop({name!r}, None)"


def checked(layer: Layer) -> Config:
    """A layer on its own; raises ConfigError, which names its source."""
    try:
        config = Config.model_validate(dict(layer.values), context=PARTIAL)
    except ValidationError as error:
        keys = [each["loc"] for each in error.errors(include_context=False)]
        where = place_of(layer.text, keys)
        raise ConfigError(f"{layer.source}{where}: {explain(error)}") from None
    for key, _ in leaves(config, given=True):
        if key in ELSEWHERE:
            where = place_of(layer.text, [key])
            raise ConfigError(f"{layer.source}{where}: {elsewhere(key)}")
    return config


def merge(below: Mapping[str, object], above: Mapping[str, object]) -> JsonDict:
    """Nested sections put over others."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged
