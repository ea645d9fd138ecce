"""The policy: which calls run, which are asked about, and which never run.

A user's approvals may reach beyond one call. Those of a session end with it; tools that are allowed
in a folder for good are stored in the user's own directory. Both remember the sources that had been
read when they were given.
"""

from __future__ import annotations

import logging
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from ipyagent.config import ConfirmMode, Rule, Subject
from ipyagent.config.sources import UserDataFile
from ipyagent.digests import digest_json
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.plaintext import join_words
from ipyagent.schema import DecidedBy, Decision, Model, Scope
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
        return found.grant

    def grant(self, tool: Tool, effects: Effects | None = None) -> None:
        """Allow a tool from now on; raises ConfigError if that cannot be saved."""
        old = self.grant_for(tool)
        grant = old.with_effects(effects) if old else grant_for_reach(effects)
        touches = None if grant.kinds is None else tuple(sorted(grant.kinds))
        permission = _Permission(tool=tool_identity(tool), touches=touches, subject=grant.subject)
        self._store({tool.name: permission})

    def revoke(self, name: str) -> None:
        """Revoke the permission of one tool."""
        self._store({name: None})

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
            found[name] = _Permission.model_validate(each)
    return found


log = logging.getLogger("ipyagent")

Arguments = JsonMapping

MAX_NAMED_SOURCES = 3  # sources named to the user
_READERS = ("read_file", "search_files", "list_files")


class Effect(StrEnum):
    """A policy's effect on a call: allow, ask or deny."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a call, who gave it, and the reason if it is not the tool alone.

    `decision` is set for an allowed call; `scopes` are how far the user's approval may reach beyond
    this call.
    """

    effect: Effect
    by: DecidedBy = DecidedBy.POLICY
    reason: str | None = None
    scopes: tuple[Scope, ...] = ()
    decision: Decision = Decision.AUTO
    may_look: bool = False
    """True if the user need not be asked should the call turn out to change nothing."""


class CallPolicy(Protocol):
    """Judges every call before it is shown or run."""

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Return the verdict on a call with these checked arguments and effects."""

    def grant(self, tool: Tool, scope: Scope, effects: Effects | None = None) -> None:
        """Remember the user's approval of a call for as long as `scope` says."""


@dataclass
class Policy:
    """The policy of a session: confirm mode, rules, and the user's earlier permissions.

    Denials come first, then what always asks, then yolo, then what allows. After untrusted content
    was read, a tool that reaches out is asked about once more; an approval then holds for those
    sources. A permission for code covers only code that touches no more, as far as static
    analysis can tell.
    """

    mode: ConfirmMode = "confirm-sensitive"
    grants: Grants = field(default_factory=Grants)
    """The calls that were allowed for this session."""
    sources: AbstractSet[str] = frozenset()
    """The sources that the model has read, the newest last."""
    rules: Sequence[Rule] = ()
    folder_permissions: FolderPermissions | None = None
    """Tools that were allowed in this folder."""
    allowed_tools: Sequence[str] = ()
    """The only tools that may be called; empty: all."""
    refusal: Callable[[str], str | None] = lambda name: None
    """Returns why a tool may not be called now."""
    root: Path = Path()
    """Relative paths start here."""
    looks: bool = False
    """True if code that changes nothing need not be asked about."""
    _rules_by_tool: dict[tuple[str, Effect], list[Rule]] = field(
        default_factory=dict, init=False, repr=False
    )

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Return the verdict on a call with these checked arguments and effects."""
        call = self._subject_of(tool, arguments)
        if reason := self._refusal_reason(tool) or self._matching_rule(Effect.DENY, call):
            return Verdict(Effect.DENY, reason=reason)
        if tool.question is not None:
            return Verdict(Effect.ASK)
        read = self._unaccepted_sources(tool)
        always = tool.always_asks(**arguments) if tool.always_asks else None
        if each_time := [why for why in (always, self._matching_rule(Effect.ASK, call)) if why]:
            return Verdict(Effect.ASK, reason="; ".join(filter(None, (*each_time, read))))
        if self.mode == "yolo":
            return Verdict(Effect.ALLOW)
        return self._evaluate_permissions(tool, call, read, effects)

    def _evaluate_permissions(
        self, tool: Tool, call: Subject, read: str | None, effects: Effects | None
    ) -> Verdict:
        """Return the verdict by permissions: allowed before or by the tool's nature, else ask."""
        # Neither rules nor folders depend on what a conversation has read.
        lasting = self.mode == "confirm-sensitive" and read is None
        if lasting and (not tool.sensitive or self._matching_rule(Effect.ALLOW, call)):
            return Verdict(Effect.ALLOW)
        session = self.grants.get(tool.name)
        if session and session.covers(effects) and read is None:
            return Verdict(Effect.ALLOW, DecidedBy.SESSION)
        folder = (
            self.folder_permissions.grant_for(tool) if lasting and self.folder_permissions else None
        )
        if folder and folder.covers(effects):
            return Verdict(Effect.ALLOW, DecidedBy.FOLDER)
        offered = (
            [Scope.SESSION, Scope.FOLDER]
            if lasting and self.folder_permissions
            else [Scope.SESSION]
        )
        # "Always" would cover what nobody can tell.
        scopes = () if effects is not None and not effects.is_known else tuple(offered)
        reasons = (_describe_excess(session or folder, effects), read)
        reason = "; ".join(filter(None, reasons)) or None
        looks = self.looks and self.mode == "confirm-sensitive" and not self._guards_files
        return Verdict(Effect.ASK, reason=reason, scopes=scopes, may_look=looks)

    def grant(self, tool: Tool, scope: Scope, effects: Effects | None = None) -> None:
        """Remember the user's approval of a call for as long as `scope` says.

        Whoever allows code for longer knows what that code itself reads.
        """
        self.grants.accept_sources(tool.name, self.sources)
        if scope is not Scope.ONCE:
            self.grants.allow(tool.name, effects)
            self.grants.accept_sources(tool.name, effects.sources if effects else ())
        if scope is Scope.FOLDER and self.folder_permissions is not None:
            try:
                self.folder_permissions.grant(tool, effects)
            except ConfigError as error:  # the approval itself stands
                log.warning("%s is allowed for this session only: %s", tool.name, error)

    def _refusal_reason(self, tool: Tool) -> str | None:
        names = [tool.name, *filter(None, [tool.part_of])]
        if self.allowed_tools and not any(name in self.allowed_tools for name in names):
            return "it is not among the tools of agent.allowed_tools"
        reasons = [self.refusal(name) for name in names]
        return reasons[0] if all(reasons) else None

    def _unaccepted_sources(self, tool: Tool) -> str | None:
        """Return the newest source that the user did not know of when they allowed the tool."""
        known = self.grants.known_sources(tool.name)
        if known >= self.sources or not tool.can_reach_out():
            return None
        new = [source for source in self.sources if source not in known]
        more = [f"{len(new) - MAX_NAMED_SOURCES} more"] if len(new) > MAX_NAMED_SOURCES else []
        named = join_words([*new[: -MAX_NAMED_SOURCES - 1 : -1], *more])
        return f"this conversation has read {named}"

    def _matching_rule(self, effect: Effect, call: Subject) -> str | None:
        """Return the description of the first rule of that effect that matches the call."""
        if not self.rules:
            return None
        key = (call.tool, effect)
        if key not in self._rules_by_tool:
            rules = (rule for rule in self.rules if rule.effect == effect)
            names = [call.tool, *filter(None, [call.part_of])]
            self._rules_by_tool[key] = [rule for rule in rules if any(map(rule.names_tool, names))]
        return next(
            (rule.explanation for rule in self._rules_by_tool[key] if rule.matches(call)), None
        )

    @property
    def _guards_files(self) -> bool:
        """True if a rule keeps files from being read: code that only looks could read them."""
        return any(
            rule.effect != "allow" and rule.path is not None and any(map(rule.names_tool, _READERS))
            for rule in self.rules
        )

    def _subject_of(self, tool: Tool, arguments: Arguments) -> Subject:
        def list_paths() -> Iterable[str]:
            if tool.paths is not None:
                return tool.paths(**arguments)
            path = arguments.get("path")
            return (path,) if isinstance(path, str) else ()

        return Subject(tool.name, arguments, self.root, list_paths, tool.command, tool.part_of)


def _describe_excess(grant: Grant | None, effects: Effects | None) -> str | None:
    """Describe the effects of a call beyond those allowed for its tool."""
    if grant is None or effects is None or grant.covers(effects):
        return None
    if effects.subject != grant.subject or not effects.is_known:
        return f"not covered by what you allowed: {effects.describe_beyond(())}"
    return f"also touches: {effects.describe_beyond(grant.kinds or ())}"
