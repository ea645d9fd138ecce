"""The words behind `%agent mcp`, `%agent api` and `%agent session`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TypeVar

from ipyagent.errors import ConfigError

T = TypeVar("T")


def chosen(of: str, rest: str, commands: Mapping[str, T]) -> tuple[str, T, list[str]]:
    """The name of a subcommand (alone: list), the subcommand, and its words."""
    try:
        name, *words = shlex.split(rest) or ["list"]
    except ValueError as error:
        raise ConfigError(f"%agent {of}: {error} in {rest!r}") from None
    if name not in commands:
        raise ConfigError(f"%agent {of} has no {name!r}; there are: {', '.join(commands)}")
    return name, commands[name], words
