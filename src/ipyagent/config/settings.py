"""What all sources add up to, and where each value comes from."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ipyagent.config.keys import Key, explain, leaves, nested, put, text_of, told
from ipyagent.config.policy import refused
from ipyagent.config.profiles import BUILT_IN
from ipyagent.config.sections import Config
from ipyagent.config.sources import Layer, check_homes, checked, from_environment, user_layer
from ipyagent.config.trust import workspace_layers
from ipyagent.config.usable import usable
from ipyagent.errors import AgentNotFoundError, ConfigError
from ipyagent.json_types import JsonDict

DEFAULT = "default"

_INSTEAD = {"system_prompt": "system_prompt_path", "system_prompt_path": "system_prompt"}
"""Keys of which the later one replaces the other."""

RULES: Key = ("policy", "rules")
"""The list to which each layer adds."""


@dataclass(frozen=True)
class Settings:
    """The settings in force, the source of each by dotted key, and what the person should know."""

    config: Config
    origins: Mapping[str, str]
    notices: tuple[str, ...] = ()


class Row(NamedTuple):
    """A setting as it is shown."""

    key: str
    value: str
    origin: str


def standing(
    environ: Mapping[str, str], start: Mapping[str, str] | None, folder: Path | None = None
) -> tuple[Layer, ...]:
    """The layers that hold for every run: the built-in profiles, the user's file, and so on."""
    check_homes(environ, start)
    brought = () if folder is None else workspace_layers(folder)
    return BUILT_IN, user_layer(), *brought, from_environment(environ, start)


def settle(*layers: Layer, agent: str | None = None) -> Settings:
    """What the layers add up to, later ones winning; raises ConfigError.

    A named `agent` is laid over all but the last layer, which is what the person says right now.
    """
    total = _Sum()
    before = layers if agent is None else layers[:-1]
    for layer in before:
        total.add(layer)
    if agent is not None:
        total.lay_over(agent)
        total.add(layers[-1])
    return total.settings()


def combine(*layers: Layer, agent: str | None = None) -> Config:
    """The settings that the layers add up to; raises ConfigError."""
    return settle(*layers, agent=agent).config


def from_assignment(text: str, *below: Layer) -> Layer:
    """The value in `section.key=value`, as typed by the person, over the layers `below`."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ConfigError("%agent config: expected KEY=VALUE, such as agent.max_steps=30")
    values: JsonDict = {}
    put(values, tuple(key.split(".")), value)
    layer = Layer("%agent", values)
    combine(*below, layer)
    return layer


def shown(settings: Settings) -> tuple[Row, ...]:
    """Every setting with its value, secrets masked, and where it comes from."""
    rows = []
    for key, value in leaves(settings.config):
        name = ".".join(key)
        rows.append(Row(told(name), text_of(value), settings.origins[name]))
    return tuple(rows)


@dataclass
class _Sum:
    """What layers add up to so far."""

    values: dict[Key, Any] = field(default_factory=dict)
    sources: dict[Key, Layer] = field(default_factory=dict)
    trusted: dict[Key, tuple[Layer, Any]] = field(default_factory=dict)
    """What the trusted layers alone add up to."""
    notices: list[str] = field(default_factory=list)

    def add(self, layer: Layer) -> None:
        if not layer.trusted:
            layer = usable(layer)
        self.notices += layer.notices
        given = dict(leaves(checked(layer), given=True))
        if layer.trusted:
            self._replace_profiles({key[1] for key in given if key[0] == "agents"})
        self._put(layer, given)

    def _replace_profiles(self, names: set[str]) -> None:
        """Leave out the built-in profiles with these names: the user has profiles of their own.

        A folder that is not trusted changes them key by key, and so cannot widen what they allow.
        """
        for key in [key for key in self.values if key[0] == "agents" and key[1] in names]:
            if self.sources[key] is BUILT_IN:
                del self.values[key], self.sources[key]
                self.trusted.pop(key, None)

    def lay_over(self, agent: str) -> None:
        """The named agent's settings over the agent's, those of trusted sources first."""
        names = sorted({key[1] for key in self.values if key[0] == "agents"})
        if agent not in names:
            raise AgentNotFoundError(_no_agent(agent, names))
        now = {key: (self.sources[key], value) for key, value in self.values.items()}
        # What a folder put over the person's own may be refused here: then theirs holds.
        for given in (self.trusted, {k: v for k, v in now.items() if not v[0].trusted}):
            for key, (layer, value) in tuple(given.items()):
                if key[:2] == ("agents", agent) and len(key) > 2:
                    if layer is BUILT_IN and key[2] == "allowed_tools":
                        value = self._narrowed(value)
                    layer = replace(layer, source=f"{layer.source}, agents.{told(agent)}")
                    self._put(layer, {("agent", key[2]): value})

    def _narrowed(self, tools: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of a built-in profile's tools that the settings allow at all."""
        own: tuple[str, ...] = self.values.get(("agent", "allowed_tools"), ())
        return tuple(name for name in tools if name in own) or own or tools

    def _put(self, layer: Layer, given: dict[Key, Any]) -> None:
        if not layer.trusted:
            self._tighten(layer, given)
        if RULES in given:
            new = (rule.model_copy(update={"source": layer.source}) for rule in given[RULES])
            given = {**given, RULES: (*self.values.get(RULES, ()), *new)}
        for key, value in given.items():
            instead = (*key[:-1], _INSTEAD.get(key[-1], ""))
            if value is not None:
                self.values.pop(instead, None)
            self.values[key], self.sources[key] = value, layer
            if layer.trusted:
                if value is not None:
                    self.trusted.pop(instead, None)
                self.trusted[key] = layer, value
        self.notices += _discouraged(layer, given)

    def _tighten(self, layer: Layer, given: dict[Key, Any]) -> None:
        """Leave out what an untrusted folder may not set, and say so."""
        for key, limit in refused(given, self.values, layer.folder).items():
            rest = limit.rest(given.pop(key))
            if rest:
                given[key] = rest
            self.notices.append(
                f"{layer.source}: {told('.'.join(key))} is ignored, because a folder's settings "
                f"{limit.why}. If you trust this folder as it is now: `%agent trust`."
            )

    def settings(self) -> Settings:
        try:
            config = Config.model_validate(nested(self.values.items()))
        except ValidationError as error:  # each layer is right, but together something is missing
            if any(not layer.trusted for layer in self.sources.values()):
                return self._without_strangers().settings()
            raise ConfigError(f"{self._source(('llm', 'mode'))}: {explain(error)}") from None
        origins = {".".join(key): self._source(key) for key, _ in leaves(config)}
        return Settings(config, origins, tuple(self.notices))

    def _without_strangers(self) -> _Sum:
        """Return what the trusted layers alone add up to, and say so."""
        values = {key: value for key, (_, value) in self.trusted.items()}
        sources = {key: layer for key, (layer, _) in self.trusted.items()}
        names = {layer.source for layer in self.sources.values() if not layer.trusted}
        notice = (
            f"{', '.join(sorted(names))}: all of it is ignored, because it does not fit your own "
            "settings."
        )
        return _Sum(values, sources, self.trusted, [*self.notices, notice])

    def _source(self, key: Key) -> str:
        if key == RULES:
            written = dict.fromkeys(rule.source for rule in self.values.get(RULES, ()))
            return ", ".join(written) or DEFAULT
        return self.sources[key].source if key in self.sources else DEFAULT


def _discouraged(layer: Layer, given: Mapping[Key, Any]) -> Iterator[str]:
    for server in given.get(("mcp", "servers"), ()):
        if server.token is not None:
            yield (
                f"{layer.source}: the token of {told(server.name)} is written out there. Put it "
                "into an environment variable, and the name of that into token_env."
            )


def _no_agent(name: str, names: list[str]) -> str:
    if not names:
        return f"no agent is called {name!r}: the settings have no section agents.NAME"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {told(close[0])}? There" if close else "there"
    return f"no agent is called {name!r}; {hint} are: {told(', '.join(names))}"
