"""Approvals beyond one call, and the sources that had been read when they were given.

Those of a session end with it; tools that are allowed in a folder for good are stored in the user's
own directory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from ipyagent.config.sources import UserDataFile
from ipyagent.digests import digest_json
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Model
from ipyagent.tools.base import Tool
from ipyagent.tools.static_analysis import Effects, describe_coverage


@dataclass(frozen=True)
class Grant:
    """The reach of an "Always": calls that touch no more than `kinds`; None without analysis.

    `subject` names the analyzed argument, such as "code".
    """

    kinds: frozenset[str] | None = None
    subject: str = ""

    def covers(self, effects: Effects | None) -> bool:
        """Return whether a call with these effects is covered."""
        if self.kinds is None or effects is None:
            return self.kinds is None and effects is None
        if effects.subject != self.subject:
            return False
        return effects.is_known and effects.kinds <= self.kinds

    def with_effects(self, effects: Effects | None) -> Grant:
        """Return the grant that covers these effects as well."""
        if effects is None or effects.subject != self.subject:
            return grant_for_reach(effects)
        return Grant((self.kinds or frozenset()) | effects.kinds, self.subject)

    def __str__(self) -> str:
        return "" if self.kinds is None else describe_coverage(self.subject, self.kinds)


def grant_for_reach(effects: Effects | None) -> Grant:
    """Return the grant that covers a call with these effects."""
    return Grant() if effects is None else Grant(effects.kinds, effects.subject)


@dataclass
class Grants:
    """The approvals of one session."""

    _tools: dict[str, Grant] = field(default_factory=dict)
    _known_sources: dict[str, frozenset[str]] = field(default_factory=dict)

    def allow(self, tool: str, effects: Effects | None = None) -> None:
        """Let calls of a tool that touch no more than this one run without asking."""
        old = self._tools.get(tool)
        self._tools[tool] = old.with_effects(effects) if old else grant_for_reach(effects)

    def accept_sources(self, tool: str, sources: Collection[str]) -> None:
        """Remember that a call of the tool was approved after these sources had been read."""
        self._known_sources[tool] = self.known_sources(tool) | frozenset(sources)

    def known_sources(self, tool: str) -> frozenset[str]:
        """Return the sources that need no further question for that tool."""
        return self._known_sources.get(tool, frozenset())

    def revoke(self, tool: str) -> None:
        """Ask again about the tool and about the sources read."""
        self._tools.pop(tool, None)
        self._known_sources.pop(tool, None)

    def get(self, tool: str) -> Grant | None:
        """Return the grant of that tool, if any."""
        return self._tools.get(tool)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._tools))

    def __contains__(self, tool: object) -> bool:
        return tool in self._tools

    def __len__(self) -> int:
        return len(self._tools)


class _Permission(Model):
    """A stored permission: the tool's identity, and what its calls may touch."""

    tool: str
    touches: tuple[str, ...] | None = None
    subject: str = ""

    @property
    def grant(self) -> Grant:
        """Return the reach of the permission."""
        return Grant(None if self.touches is None else frozenset(self.touches), self.subject)


_PERMISSIONS = UserDataFile("permissions.json")


class FolderPermissions:
    """The permissions of one folder, read when they are first needed.

    A permission is for one version of a tool: if its description or parameters change, it is
    another tool. For tools that run code, a permission covers code that touches no more than what
    was allowed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def grant_for(self, tool: Tool) -> Grant | None:
        """Return the user's permissions for this tool here."""
        found = self._cached_grants[0].get(tool.name)
        if found is None or found.tool != tool_identity(tool):
            return None
        grant = found.grant
        # Permissions from before static analysis covered everything that code may do.
        return grant if (grant.kinds is None) == (tool.effects is None) else None

    def allows(self, tool: Tool) -> bool:
        """Return whether the user allowed calls of this tool here."""
        return self.grant_for(tool) is not None

    def grant(self, tool: Tool, effects: Effects | None = None) -> None:
        """Allow a tool from now on; raises ConfigError if that cannot be saved."""
        old = self.grant_for(tool)
        grant = old.with_effects(effects) if old else grant_for_reach(effects)
        touches = None if grant.kinds is None else tuple(sorted(grant.kinds))
        permission = _Permission(tool=tool_identity(tool), touches=touches, subject=grant.subject)
        self._store({tool.name: permission})

    def revoke(self, name: str | None = None) -> list[str]:
        """Revoke the permission of one tool, or of all; return the names of those revoked."""
        revoked = [each for each in self.tool_names() if name in (None, each)]
        if revoked:
            self._store(dict.fromkeys(revoked))
        return revoked

    def tool_names(self) -> list[str]:
        """Return the names of the allowed tools."""
        return sorted(self._cached_grants[0])

    def describe_grant(self, name: str) -> str:
        """Describe the allowed calls of the tool with that name; "" for all of them."""
        found = self._cached_grants[0].get(name)
        return str(found.grant) if found else ""

    def notices(self) -> tuple[str, ...]:
        """Return the notice that the user's permissions cannot be read, if so."""
        return self._cached_grants[1]

    def _store(self, tools: Mapping[str, _Permission | None]) -> None:
        def update_folder(stored: JsonDict) -> JsonDict:
            now = {**_read_permissions(stored), **tools}
            return {name: each.to_dict(exclude_none=True) for name, each in now.items() if each}

        _PERMISSIONS.rewrite_of(self._folder, update_folder)
        self.__dict__.pop("_cached_grants", None)  # to be read anew

    @cached_property
    def _cached_grants(self) -> tuple[dict[str, _Permission], tuple[str, ...]]:
        try:
            return _read_permissions(_PERMISSIONS.read_of(self._folder)), ()
        except ConfigError as error:
            return {}, (f"No tool is allowed in this folder for good, because {error}.",)


def tool_identity(tool: Tool) -> str:
    """Return a digest of a tool's origin, description and parameters."""
    origin = getattr(tool.function, "__module__", ""), getattr(tool.function, "__qualname__", "")
    return digest_json([*origin, tool.description, tool.arguments.schema])


def _read_permissions(stored: JsonDict) -> dict[str, _Permission]:
    """Return the stored permissions of a folder, without invalid ones."""
    found = {}
    for name, each in stored.items():
        with suppress(ValidationError):
            found[name] = _Permission.model_validate(
                {"tool": each} if isinstance(each, str) else each
            )
    return found
