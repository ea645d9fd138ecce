"""Settings: what can be set, where a value may come from, and which source wins."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
import yaml
from pydantic import (
    BeforeValidator,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from ipyagent.errors import ConfigError
from ipyagent.schema import Model

Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda v: [n.strip() for n in v.split(",")] if isinstance(v, str) else v),
]
"""Names, as a list or separated by commas."""

ConfirmMode = Literal["confirm-sensitive", "confirm-all", "yolo"]


class RetryConfig(Model):
    """When a transient failure of the model is tried again: min(initial·base^n, max) seconds."""

    max_retries: NonNegativeInt = 3
    initial_delay: NonNegativeFloat = 1.0
    max_delay: NonNegativeFloat = 60.0
    exponential_base: PositiveFloat = 2.0


class LLMConfig(Model):
    """Which model answers and how it is reached."""

    model: str | None = None
    """Any LiteLLM model id, `offline/explorer` or `scripted/PATH`; None: resolved (llm/resolve)."""
    api_base: str | None = None
    """Base URL of the service, when it is not the provider's own."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; None: the provider's usual one."""
    timeout: PositiveFloat = 60.0
    """Seconds to wait for the first chunk, and between chunks."""
    vision: bool | None = None
    """Whether the model can see images; None: as LiteLLM's model map says."""
    retry: RetryConfig = RetryConfig(max_retries=2)


class AgentConfig(Model):
    """How the agent works."""

    confirm_mode: ConfirmMode = "confirm-sensitive"
    """Which calls are asked about: sensitive ones, all, or none (`yolo`)."""
    max_steps: PositiveInt = 20
    max_seconds: PositiveFloat | None = None
    max_tokens: PositiveInt | None = None
    max_usd: PositiveFloat | None = None
    allowed_tools: Names = ()
    """Only these tools; empty: all."""


class WorkspaceConfig(Model):
    """Which files the agent can reach."""

    root: str = "."
    """The folder that all file tools are confined to."""
    allow_delete: bool = False
    """Whether delete_file works at all; it is asked about even then."""


class Config(Model):
    """All settings."""

    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()


AppConfig = Config


@dataclass(frozen=True)
class Layer:
    """Values from one source, as nested sections; `source` is how messages call it."""

    source: str
    values: Mapping[str, Any]


def user_file() -> Path:
    """The person's own configuration file; it need not exist."""
    return platformdirs.user_config_path("ipyagent") / "config.yaml"


def from_file(path: Path) -> Layer:
    """The values in a YAML file; none if there is no such file."""
    source = str(path)
    try:
        values = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{source} cannot be read as YAML: {error}") from None
    if not isinstance(values or {}, dict):
        raise ConfigError(f"{source}: expected sections such as `llm:` with keys below them")
    return Layer(source, values or {})


PINNED = frozenset(
    {
        "llm.api_base",
        "llm.api_key_env",
        "agent.confirm_mode",
        "workspace.root",
        "workspace.allow_delete",
    }
)
"""What a `.env` file that somebody loads later must not decide: who gets the key, what is asked."""


def from_environment(environ: Mapping[str, str], start: Mapping[str, str] | None = None) -> Layer:
    """The values of variables such as IPYAGENT_LLM__API_BASE; IPYAGENT_MODEL is llm.model.

    `start` is the environment that the process began with: pinned keys are taken from there only.
    """
    values: dict[str, Any] = {}
    ignored = set() if start is None else set(late(environ, start))
    for name, value in environ.items():
        if name.startswith("IPYAGENT_") and name not in ignored:
            _put(values, _path(name), value)
    return Layer("the environment (IPYAGENT_…)", values)


def late(environ: Mapping[str, str], start: Mapping[str, str]) -> list[str]:
    """Variables for pinned keys that were set after the process began, perhaps by a `.env` file."""
    return [
        name
        for name, value in environ.items()
        if name.startswith("IPYAGENT_")
        and ".".join(_path(name)) in PINNED
        and start.get(name) != value
    ]


def _path(name: str) -> tuple[str, ...]:
    """The setting that an IPYAGENT_ variable is for."""
    if name == "IPYAGENT_MODEL":
        return ("llm", "model")
    return tuple(name.removeprefix("IPYAGENT_").lower().split("__"))


def standing(environ: Mapping[str, str], start: Mapping[str, str] | None) -> tuple[Layer, ...]:
    """The layers that hold for every run: the person's file, then the environment."""
    return from_file(user_file()), from_environment(environ, start)


def from_assignment(text: str) -> Layer:
    """The value in `section.key=value`, as typed by the person."""
    key, equals, value = (part.strip() for part in text.partition("="))
    values: dict[str, Any] = {}
    _put(values, tuple(key.split(".")), value)
    layer = Layer("%agent config", values)
    if not equals:
        raise ConfigError(f"%agent config: expected KEY=VALUE{_nearest((key,))}")
    combine(layer)
    return layer


def values_of(settings: Config) -> dict[str, Any]:
    """All settings by dotted key."""
    return {key: _get(settings, key) for key in _keys(Config)}


def combine(*layers: Layer) -> Config:
    """The settings that the layers add up to, later ones winning; raises ConfigError."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer.values)
        try:
            config = Config.model_validate(merged)
        except ValidationError as error:
            raise ConfigError(_explain(error, layer.source)) from None
    return config


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for section in path[:-1]:
        values = values.setdefault(section, {})
    values[path[-1]] = value


def _get(settings: Model, key: str) -> Any:
    section, dot, rest = key.partition(".")
    value = getattr(settings, section)
    return _get(value, rest) if dot else value


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested sections put over others."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged


def _explain(error: ValidationError, source: str) -> str:
    problems = []
    for each in error.errors():
        path = tuple(str(part) for part in each["loc"])
        if each["type"] == "extra_forbidden":
            problems.append(f"{'.'.join(path)} is not a setting{_nearest(path)}")
        else:
            problems.append(f"{'.'.join(path)}: {each['msg']}")
    return f"{source}: " + "; ".join(problems)


def _nearest(path: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(".".join(path), _keys(Config), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(_keys(Config))}"


def _keys(model: type[Model], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Model):
            keys += _keys(inner, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys
