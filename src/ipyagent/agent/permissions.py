"""Tools that the person allowed in a folder for good, kept in their own directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ipyagent.agent.grants import Grant, grant_of
from ipyagent.config.personal import PersonalFile, folder_name
from ipyagent.errors import ConfigError
from ipyagent.tools.base import Tool
from ipyagent.tools.reach import Reach

Entry = dict[str, Any]
"""A permission as it is written: the tool's identity, and what its calls may touch."""

_PERMISSIONS = PersonalFile("permissions.json")


class Standing:
    """The permissions of one folder, as they are when they are first asked for.

    They are for a tool as it was then: one that says or takes something else is another tool. Of
    tools that run code they cover what touches no more than what was allowed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder_name(folder)

    def grant_of(self, tool: Tool) -> Grant | None:
        """What the person allowed of this tool here."""
        entry = self._known[0].get(tool.name)
        if entry is None or entry["tool"] != identity(tool):
            return None
        grant = _grant_in(entry)
        # What was written before reading was known covered all that code may do.
        return grant if (grant.kinds is None) == (tool.reach is None) else None

    def allows(self, tool: Tool) -> bool:
        """Whether the person allowed calls of this tool here."""
        return self.grant_of(tool) is not None

    def grant(self, tool: Tool, reach: Reach | None = None) -> None:
        """Allow a tool from now on; raises ConfigError where that cannot be written down."""
        old = self.grant_of(tool)
        grant = old.with_reach(reach) if old else grant_of(reach)
        entry: Entry = {"tool": identity(tool)}
        if grant.kinds is not None:
            entry |= {"touches": sorted(grant.kinds), "subject": grant.subject}
        self._change({tool.name: entry})

    def forget(self, name: str | None = None) -> list[str]:
        """Take back the permission of a tool, or of all; the names of those that had one."""
        gone = [each for each in self.tools() if name in (None, each)]
        if gone:
            self._change(dict.fromkeys(gone))
        return gone

    def tools(self) -> list[str]:
        """The names of the tools that are allowed."""
        return sorted(self._known[0])

    def covers(self, name: str) -> str:
        """What is allowed of the tool of that name, in words; "" for all of its calls."""
        entry = self._known[0].get(name)
        return str(_grant_in(entry)) if entry else ""

    def notices(self) -> tuple[str, ...]:
        """What the person should know: that their permissions cannot be read."""
        return self._known[1]

    def _change(self, tools: Mapping[str, Entry | None]) -> None:
        def edit(folders: dict[str, Any]) -> dict[str, Any]:
            now = {**_entries(folders.get(self._folder)), **tools}
            kept = {name: _written(entry) for name, entry in now.items() if entry is not None}
            return {**folders, self._folder: kept}

        _PERMISSIONS.change(edit)
        self.__dict__.pop("_known", None)  # to be read anew

    @cached_property
    def _known(self) -> tuple[dict[str, Entry], tuple[str, ...]]:
        try:
            return _entries(_PERMISSIONS.read().get(self._folder)), ()
        except ConfigError as error:
            return {}, (f"No tool is allowed in this folder for good, because {error}.",)


def identity(tool: Tool) -> str:
    """SHA-256 over where a tool comes from, what it says of itself and what it takes."""
    origin = getattr(tool.function, "__module__", ""), getattr(tool.function, "__qualname__", "")
    told = json.dumps([*origin, tool.description, tool.arguments.schema], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _entries(found: Any) -> dict[str, Entry]:
    """What is written of a folder, without what we would not write."""
    if not isinstance(found, dict):
        return {}
    read = {name: {"tool": each} if isinstance(each, str) else each for name, each in found.items()}
    return {name: each for name, each in read.items() if _is_entry(each)}


def _is_entry(found: Any) -> bool:
    match found:
        case {"tool": str(), "touches": list(kinds), "subject": str()}:
            return all(isinstance(kind, str) for kind in kinds)
        case {"tool": str(), **rest}:
            return not rest
    return False


def _grant_in(entry: Entry) -> Grant:
    if "touches" not in entry:
        return Grant()
    return Grant(frozenset(entry["touches"]), entry["subject"])


def _written(entry: Entry) -> Entry | str:
    return entry if "touches" in entry else str(entry["tool"])
