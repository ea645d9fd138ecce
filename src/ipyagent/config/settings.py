"""The resolved settings of all sources, the source of each value, and whether one has changed.

Among the sources are the built-in profiles, such as `%%agent -a review`; a profile of the user's
with the same name replaces one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ipyagent.config import sections
from ipyagent.config.sources import (
    HOME_VARIABLES,
    LIMITS,
    POLICY_FILES,
    PREFIX,
    Layer,
    check_homes,
    find_violations,
    from_environment,
    from_file,
    limit_key,
    policy_layers,
    user_file,
    validate_layer,
)
from ipyagent.config.trust import (
    MCP_FILE_NAMES,
    PYPROJECT,
    TRUST_FILE,
    YAML,
    drop_invalid,
    workspace_layers,
)
from ipyagent.errors import AgentNotFoundError, ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import cite

_READING_TOOLS = (
    "list_files",
    "read_file",
    "inspect_file",
    "search_files",
    "list_variables",
    "inspect_variable",
    "read_notebook",
    "recall_notes",
    "todo_write",
    "ask_user",
)

_PROFILES: dict[str, JsonDict] = {
    "explain": {
        "system_prompt": "Explain what is there, in plain words and from the beginning, with the "
        "names that the code and the data use. Look at them first. Change nothing, run nothing.",
        "allowed_tools": _READING_TOOLS,
    },
    "plan": {
        "system_prompt": "Propose the whole plan first: few steps, each of them complete, in the "
        "order in which they are to run.",
        "plan": True,
    },
    "review": {
        "system_prompt": "Review what is there: read it, then list what is wrong or risky, the "
        "gravest first, each with its file and line or its variable, why it matters, and what you "
        "would do. Say so when you find nothing. Change nothing, run nothing.",
        "allowed_tools": _READING_TOOLS,
    },
    "write": {
        "system_prompt": "Write or change files and cells as the user asks. Read first what you "
        "change, keep its style, make the smallest change that does it, and say at the end what "
        "you changed.",
        "allowed_tools": (*_READING_TOOLS, "write_file", "edit_file", "insert_cell", "edit_cell"),
    },
}

BUILT_IN_PROFILES = Layer("ipyagent's own profiles", {"agents": _PROFILES})
"""The layer below all others."""


def has_profile_tools(agent: str | None, settings: sections.AgentConfig) -> bool:
    """Return whether the allowed tools are those of a built-in profile.

    It names every tool that it may use; the settings still decide which groups are switched on.
    """
    profile = _PROFILES.get(agent or "", {})
    return settings.allowed_tools == profile.get("allowed_tools")


DEFAULT = "default"

_ALTERNATIVES = {"system_prompt": "system_prompt_path", "api_key": "api_key_env"}
_ALTERNATIVES |= {other: key for key, other in _ALTERNATIVES.items()}
"""Keys of which the later one replaces the other."""

RULES_KEY: sections.Key = ("policy", "rules")
"""The list to which each layer adds."""


@dataclass(frozen=True)
class Settings:
    """The settings in force, the source of each, and notices for the user."""

    config: sections.Config
    source_of: Callable[[sections.Key], str]
    notices: tuple[str, ...] = ()
    bound: Mapping[sections.Key, object] = field(default_factory=dict)
    """The values of an administrator."""

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """The sources by dotted key."""
        return {
            ".".join(key): self.source_of(key) for key, _ in sections.iter_settings(self.config)
        }


class SettingRow(NamedTuple):
    """A setting for display."""

    key: str
    value: str
    origin: str


def base_layers(
    environ: Mapping[str, str], start: Mapping[str, str] | None, folder: Path | None = None
) -> tuple[Layer, ...]:
    """Return the layers of every run: the built-in profiles, the administrator's, and so on."""
    check_homes(environ, start)
    below = BUILT_IN_PROFILES, *policy_layers(), from_file(user_file())
    folder_layers = () if folder is None else workspace_layers(folder)
    return *below, *folder_layers, from_environment(environ, start)


def resolve_layers(*layers: Layer, agent: str | None = None) -> Settings:
    """Merge the layers, later ones winning; raises ConfigError.

    A named `agent` is applied over all but the last layer, the options of the cell.
    """
    total = _Resolution()
    before = layers if agent is None else layers[:-1]
    for layer in before:
        total.add(layer)
    if agent is not None:
        total.apply_profile(agent)
        total.add(layers[-1])
    return total.to_settings()


def resolve_config(*layers: Layer, agent: str | None = None) -> sections.Config:
    """Return the settings of the merged layers; raises ConfigError."""
    return resolve_layers(*layers, agent=agent).config


def from_assignment(text: str, *below: Layer) -> Layer:
    """Return the layer for `section.key=value`, as the user typed it, over the layers `below`."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ConfigError("%agent config: expected KEY=VALUE, such as agent.max_steps=30")
    values: JsonDict = {}
    sections.put_value(values, tuple(key.split(".")), value)
    layer = Layer("%agent", values)
    settings = resolve_layers(*below, layer)
    for name, _ in sections.iter_settings(validate_layer(layer), only_set=True):
        if layer.source not in (source := settings.source_of(name)):
            raise ConfigError(f"{'.'.join(name)} is set for everybody, in {source}")
    return layer


def setting_rows(settings: Settings) -> tuple[SettingRow, ...]:
    """Return every setting with its value, secrets masked, and its source."""
    return tuple(
        SettingRow(cite(".".join(key)), sections.format_value(value), settings.source_of(key))
        for key, value in sections.iter_settings(settings.config)
    )


@dataclass
class _Resolution:
    """The merged layers so far."""

    values: dict[sections.Key, Any] = field(default_factory=dict)
    sources: dict[sections.Key, Layer] = field(default_factory=dict)
    trusted: dict[sections.Key, tuple[Layer, object]] = field(default_factory=dict)
    """The merged trusted layers alone."""
    notices: list[str] = field(default_factory=list)
    binding: dict[sections.Key, tuple[Layer, object]] = field(default_factory=dict)
    """The settings of an administrator: the layers above may only be stricter."""

    def add(self, layer: Layer) -> None:
        if not layer.trusted:
            layer = drop_invalid(layer)
        self.notices += layer.notices
        values = dict(sections.iter_settings(validate_layer(layer), only_set=True))
        if layer.trusted:
            self._replace_profiles({key[1] for key in values if key[0] == "agents"})
        self._apply(layer, values)

    def _replace_profiles(self, names: set[str]) -> None:
        """Drop the built-in profiles with these names: the user has profiles of the same name.

        An untrusted folder changes profiles key by key, and so cannot widen them.
        """
        for key in [key for key in self.values if key[0] == "agents" and key[1] in names]:
            if self.sources[key] is BUILT_IN_PROFILES:
                del self.values[key], self.sources[key]
                self.trusted.pop(key, None)

    def apply_profile(self, agent: str) -> None:
        """Apply the named agent's settings over the agent's, those of trusted sources first."""
        names = sorted({key[1] for key in self.values if key[0] == "agents"})
        if agent not in names:
            raise AgentNotFoundError(_unknown_agent_message(agent, names))
        now = {key: (self.sources[key], value) for key, value in self.values.items()}
        # A folder's value over the user's own may be refused here: then the user's applies.
        for given in (self.trusted, {k: v for k, v in now.items() if not v[0].trusted}):
            for key, (layer, value) in tuple(given.items()):
                if key[:2] == ("agents", agent) and len(key) > 2:
                    if layer is BUILT_IN_PROFILES and key[2] == "allowed_tools":
                        value = self._narrow_tools(value)
                    layer = replace(layer, source=f"{layer.source}, agents.{cite(agent)}")
                    self._apply(layer, {("agent", key[2]): value})

    def _narrow_tools(self, tools: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tools of a built-in profile that the settings allow."""
        own: tuple[str, ...] = self.values.get(("agent", "allowed_tools"), ())
        return tuple(name for name in tools if name in own) or own or tools

    def _apply(self, layer: Layer, values: dict[sections.Key, Any]) -> None:
        if not layer.trusted:
            self._tighten(layer, values)
        if RULES_KEY in values:
            new = (rule.model_copy(update={"source": layer.source}) for rule in values[RULES_KEY])
            values = {**values, RULES_KEY: (*self.values.get(RULES_KEY, ()), *new)}
        for key, value in values.items():
            alternative = (*key[:-1], _ALTERNATIVES.get(key[-1], ""))
            if value is not None and self.values.pop(alternative, None) is not None:
                self.sources[alternative] = layer
            self.values[key], self.sources[key] = value, layer
            if layer.trusted:
                if value is not None:
                    self.trusted.pop(alternative, None)
                self.trusted[key] = layer, value
            binds = layer.binding and key != RULES_KEY and key[0] != "agents"
            # Of two policies the stricter one holds.
            if binds and not (
                key in self.binding and _is_allowed(key, self.binding[key][1], value)
            ):
                self.binding[key] = layer, value
        self.notices += _token_warnings(layer, values)

    def _tighten(self, layer: Layer, values: dict[sections.Key, object]) -> None:
        """Drop settings that an untrusted folder may not make, with a notice."""
        for key, limit in find_violations(values, self.values, layer.folder).items():
            rest = limit.allowed_part(values.pop(key))
            if rest:
                values[key] = rest
            self.notices.append(
                f"{layer.source}: {cite('.'.join(key))} is ignored, because a folder's settings "
                f"{limit.reason}. If you trust this folder as it is now: `%agent trust`."
            )

    def to_settings(self) -> Settings:
        self._bind()
        try:
            config = sections.Config.model_validate(sections.nest(self.values.items()))
        except ValidationError as error:  # each layer is right, but together something is missing
            raise ConfigError(
                f"{self._source_of(('llm', 'mode'))}: {sections.explain_error(error)}"
            ) from None
        bound = {key: value for key, (_, value) in self.binding.items()}
        return Settings(config, self._source_of, tuple(self.notices), bound)

    def _bind(self) -> None:
        """Put back an administrator's values that the layers above have replaced by laxer ones."""
        for key, (layer, value) in self.binding.items():
            if not _is_allowed(key, self.values.get(key), value):
                self.notices.append(
                    f"{self._source_of(key)}: {cite('.'.join(key))} is ignored, because "
                    f"{layer.source} sets it for everybody."
                )
                self._apply(layer, {key: value})

    def _source_of(self, key: sections.Key) -> str:
        if key == RULES_KEY:
            written = dict.fromkeys(rule.source for rule in self.values.get(RULES_KEY, ()))
            return ", ".join(written) or DEFAULT
        return self.sources[key].source if key in self.sources else DEFAULT


def _is_allowed(key: sections.Key, value: object, policy: object) -> bool:
    """Return whether a value is as strict as the policy's."""
    limit = LIMITS.get(limit_key(key))
    return value == policy or bool(limit and limit.allows(value, policy, None))


def _token_warnings(layer: Layer, values: Mapping[sections.Key, Any]) -> Iterator[str]:
    for server in values.get(("mcp", "servers"), ()):
        if server.token is not None:
            yield (
                f"{layer.source}: the token of {cite(server.name)} is written out there. Put it "
                "into an environment variable, and the name of that into token_env."
            )


def _unknown_agent_message(name: str, names: list[str]) -> str:
    if not names:
        return f"no agent is called {name!r}: the settings have no section agents.NAME"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {cite(close[0])}? There" if close else "there"
    return f"no agent is called {name!r}; {hint} are: {cite(', '.join(names))}"


Stamp = tuple[int, ...]

Snapshot = tuple[object, ...]
"""Equal snapshots mean equal settings."""


def snapshot(environ: Mapping[str, str], folder: Path | None) -> Snapshot:
    """Return what settings depend on: stamps of their files, and variables."""
    files = [*POLICY_FILES, user_file()]
    if folder is not None:
        files += [TRUST_FILE.path, *[folder / name for name in (PYPROJECT, YAML, *MCP_FILE_NAMES)]]
    # Names first: looking at all values as well takes twice as long.
    variables = [
        (name, environ.get(name))
        for name in environ
        if name in HOME_VARIABLES or name.startswith(PREFIX)
    ]
    return stamp_files(files), frozenset(variables)


def stamp_files(paths: Iterable[Path]) -> Snapshot:
    """Return what changes when one of the files does, or other files are meant."""
    stamps: list[tuple[Path, Stamp | None]] = []
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - one call, of eight paths before each cell
        except (OSError, ValueError):  # it is missing, or cannot be seen
            stamps.append((path, None))
        else:
            times = found.st_mtime_ns, found.st_ctime_ns
            stamps.append((path, (*times, found.st_size, found.st_ino, found.st_mode)))
    return tuple(stamps)
