"""The readable part of the settings while one of their sources is invalid.

For display only: an agent never runs with half of its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ipyagent.config.invalid_settings import drop_invalid
from ipyagent.config.profiles import BUILT_IN_PROFILES
from ipyagent.config.settings import Settings, resolve_layers
from ipyagent.config.sources import Layer, check_homes, from_environment, user_layer, validate_layer
from ipyagent.config.trust import workspace_layers
from ipyagent.errors import ConfigError


def resolve_readable(
    environ: Mapping[str, str], start: Mapping[str, str] | None, folder: Path, above: Layer
) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings from the readable sources, and the problems of the others."""
    problems: list[str] = []

    def read_source(source: Callable[[], Iterable[Layer]]) -> Iterable[Layer]:
        try:
            return tuple(source())
        except ConfigError as error:
            problems.append(str(error))
            return ()

    def user_layers() -> Iterable[Layer]:
        check_homes(environ, start)
        return (user_layer(),)

    layers = [
        BUILT_IN_PROFILES,
        *(_valid_part(each, problems) for each in read_source(user_layers)),
        *read_source(lambda: workspace_layers(folder)),
        *(
            _valid_part(each, problems)
            for each in read_source(lambda: (from_environment(environ, start),))
        ),
        _valid_part(above, problems),
    ]
    try:
        return resolve_layers(*layers), tuple(problems)
    except ConfigError as error:  # each is right, but together something is missing
        return resolve_layers(BUILT_IN_PROFILES), (*problems, str(error))


def _valid_part(layer: Layer, problems: list[str]) -> Layer:
    """Return the valid part of one of the user's layers."""
    try:
        validate_layer(layer)
    except ConfigError as error:
        problems.append(str(error))
        return replace(drop_invalid(layer), notices=layer.notices)
    return layer
