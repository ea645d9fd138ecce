"""What can be said of the settings while something is wrong with one of their sources.

Only to be shown: an agent does not run by settings that are half read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ipyagent.config.profiles import BUILT_IN
from ipyagent.config.settings import Settings, settle
from ipyagent.config.sources import Layer, check_homes, checked, from_environment, user_layer
from ipyagent.config.trust import workspace_layers
from ipyagent.config.usable import usable
from ipyagent.errors import ConfigError


def readable(
    environ: Mapping[str, str], start: Mapping[str, str] | None, folder: Path, above: Layer
) -> tuple[Settings, tuple[str, ...]]:
    """Return what the settings that can be read add up to, and what is wrong with the rest."""
    problems: list[str] = []

    def read(source: Callable[[], Iterable[Layer]]) -> Iterable[Layer]:
        try:
            return tuple(source())
        except ConfigError as error:
            problems.append(str(error))
            return ()

    def own() -> Iterable[Layer]:
        check_homes(environ, start)
        return (user_layer(),)

    layers = [
        BUILT_IN,
        *(_right(each, problems) for each in read(own)),
        *read(lambda: workspace_layers(folder)),
        *(_right(each, problems) for each in read(lambda: (from_environment(environ, start),))),
        _right(above, problems),
    ]
    try:
        return settle(*layers), tuple(problems)
    except ConfigError as error:  # each is right, but together something is missing
        return settle(BUILT_IN), (*problems, str(error))


def _right(layer: Layer, problems: list[str]) -> Layer:
    """Return what is right of a layer of the user's own."""
    try:
        checked(layer)
    except ConfigError as error:
        problems.append(str(error))
        return replace(usable(layer), notices=layer.notices)
    return layer
