"""Tools that the person allowed in a folder for good, kept in their own directory."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from ipyagent.config.personal import PersonalFile, folder_name
from ipyagent.errors import ConfigError
from ipyagent.tools.base import Tool

_PERMISSIONS = PersonalFile("permissions.json")


class Standing:
    """The permissions of one folder, as they are when they are first asked for.

    They are for a tool as it was then: one that says or takes something else is another tool.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder_name(folder)

    def allows(self, tool: Tool) -> bool:
        """Whether the person allowed this tool here."""
        return self._known[0].get(tool.name) == identity(tool)

    def grant(self, tool: Tool) -> None:
        """Allow a tool from now on; raises ConfigError where that cannot be written down."""
        self._change({tool.name: identity(tool)})

    def forget(self, name: str | None = None) -> list[str]:
        """Take back the permission of a tool, or of all; the names of those that had one."""
        gone = [each for each in self.tools() if name in (None, each)]
        if gone:
            self._change(dict.fromkeys(gone))
        return gone

    def tools(self) -> list[str]:
        """The names of the tools that are allowed."""
        return sorted(self._known[0])

    def notices(self) -> tuple[str, ...]:
        """What the person should know: that their permissions cannot be read."""
        return self._known[1]

    def _change(self, tools: dict[str, str | None]) -> None:
        def edit(folders: dict[str, Any]) -> dict[str, Any]:
            now = {**_digests(folders.get(self._folder)), **tools}
            return {**folders, self._folder: {k: v for k, v in now.items() if v is not None}}

        _PERMISSIONS.change(edit)
        self.__dict__.pop("_known", None)  # to be read anew

    @cached_property
    def _known(self) -> tuple[dict[str, str], tuple[str, ...]]:
        try:
            return _digests(_PERMISSIONS.read().get(self._folder)), ()
        except ConfigError as error:
            return {}, (f"No tool is allowed in this folder for good, because {error}.",)


def identity(tool: Tool) -> str:
    """SHA-256 over where a tool comes from, what it says of itself and what it takes."""
    origin = getattr(tool.function, "__module__", ""), getattr(tool.function, "__qualname__", "")
    told = json.dumps([*origin, tool.description, tool.arguments.schema], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _digests(found: Any) -> dict[str, str]:
    """What is written of a folder, without what we would not write."""
    if not isinstance(found, dict):
        return {}
    return {name: digest for name, digest in found.items() if isinstance(digest, str)}
