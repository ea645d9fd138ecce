"""Which calls run, which are asked about, and which never run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from ipyagent.agent.grants import Grant, Grants
from ipyagent.agent.permissions import Standing
from ipyagent.config import ConfirmMode, Rule, Subject
from ipyagent.errors import ConfigError
from ipyagent.schema import DecidedBy, Decision, Scope
from ipyagent.tools.base import Tool
from ipyagent.tools.reach import Reach

log = logging.getLogger("ipyagent")

Arguments = Mapping[str, Any]

SHOWN = 3  # sources named to the person


class Effect(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a call, who says so, and why where that is not the tool alone.

    `decision` is that of a call which is allowed; `scopes` are how far a person's approval may go
    beside this once.
    """

    effect: Effect
    by: DecidedBy = DecidedBy.POLICY
    reason: str | None = None
    scopes: tuple[Scope, ...] = ()
    decision: Decision = Decision.AUTO


class Judge(Protocol):
    """Who is asked about every call before anything of it happens."""

    def judge(self, tool: Tool, arguments: Arguments, reach: Reach | None = None) -> Verdict:
        """What becomes of a call with these checked arguments; `reach` is what it would touch."""
        ...

    def grant(self, tool: Tool, scope: Scope, reach: Reach | None = None) -> None:
        """Remember a person's approval of a call for as long as `scope` says."""
        ...


@dataclass
class Policy:
    """What decides about calls: the confirm mode, rules, and what the person allowed before.

    A call is denied if anything denies it. What asks each time comes next, then yolo, then what
    allows. After others' words were read, a tool that reaches out is asked about once more; an
    approval then holds for those sources. What was allowed of code covers only what touches no
    more, as far as reading can tell.
    """

    mode: ConfirmMode = "confirm-sensitive"
    granted: Grants = field(default_factory=Grants)
    """What was allowed for this session."""
    sources: AbstractSet[str] = frozenset()
    """Whose words the model has read, the newest last."""
    rules: Sequence[Rule] = ()
    standing: Standing | None = None
    """Tools that were allowed in this folder."""
    allowed: Sequence[str] = ()
    """The only tools that may be called; empty: all."""
    refuses: Callable[[str], str | None] = lambda name: None
    """Why a tool may not be called now."""
    root: Path = Path()
    """Where paths start from."""
    _naming: dict[tuple[str, Effect], list[Rule]] = field(
        default_factory=dict, init=False, repr=False
    )

    def judge(self, tool: Tool, arguments: Arguments, reach: Reach | None = None) -> Verdict:
        """What becomes of a call with these checked arguments; `reach` is what it would touch."""
        call = self._subject(tool, arguments)
        if reason := self._refused(tool.name) or self._rule(Effect.DENY, call):
            return Verdict(Effect.DENY, reason=reason)
        if tool.question is not None:
            return Verdict(Effect.ASK)
        read = self._read_since_granted(tool)
        always = tool.always_asks(**arguments) if tool.always_asks else None
        if each_time := [why for why in (always, self._rule(Effect.ASK, call)) if why]:
            return Verdict(Effect.ASK, reason="; ".join(filter(None, (*each_time, read))))
        if self.mode == "yolo":
            return Verdict(Effect.ALLOW)
        return self._by_permission(tool, call, read, reach)

    def _by_permission(
        self, tool: Tool, call: Subject, read: str | None, reach: Reach | None
    ) -> Verdict:
        """Allowed by what the tool is or what was permitted before; else the person is asked."""
        # Neither rules nor folders know what is read in a conversation.
        lasting = self.mode == "confirm-sensitive" and read is None
        if lasting and (not tool.sensitive or self._rule(Effect.ALLOW, call)):
            return Verdict(Effect.ALLOW)
        session = self.granted.get(tool.name)
        if session and session.covers(reach) and read is None:
            return Verdict(Effect.ALLOW, DecidedBy.SESSION)
        folder = self.standing.grant_of(tool) if lasting and self.standing else None
        if folder and folder.covers(reach):
            return Verdict(Effect.ALLOW, DecidedBy.FOLDER)
        offered = [Scope.SESSION, Scope.FOLDER] if lasting and self.standing else [Scope.SESSION]
        # "Always" would cover what nobody can tell.
        scopes = () if reach is not None and not reach.readable else tuple(offered)
        reasons = (_beyond(session or folder, reach), read)
        return Verdict(Effect.ASK, reason="; ".join(filter(None, reasons)) or None, scopes=scopes)

    def grant(self, tool: Tool, scope: Scope, reach: Reach | None = None) -> None:
        """Remember a person's approval of a call for as long as `scope` says."""
        self.granted.accept(tool.name, self.sources)
        if scope is not Scope.ONCE:
            self.granted.allow(tool.name, reach)
        if scope is Scope.FOLDER and self.standing is not None:
            try:
                self.standing.grant(tool, reach)
            except ConfigError as error:  # the approval itself stands
                log.warning("%s is allowed for this session only: %s", tool.name, error)

    def _refused(self, name: str) -> str | None:
        if self.allowed and name not in self.allowed:
            return "it is not among the tools of agent.allowed_tools"
        return self.refuses(name)

    def _read_since_granted(self, tool: Tool) -> str | None:
        """What may mislead the model, beside what the person knew of when they allowed the tool."""
        known = self.granted.known(tool.name)
        if not tool.reaches_out or known >= self.sources:
            return None
        new = [source for source in self.sources if source not in known]
        more = [f"{len(new) - SHOWN} more"] if len(new) > SHOWN else []
        return f"after reading {_listed([*new[: -SHOWN - 1 : -1], *more])}"

    def _rule(self, effect: Effect, call: Subject) -> str | None:
        """What the first rule of that effect says of the call."""
        if not self.rules:
            return None
        key = (call.tool, effect)
        if key not in self._naming:
            rules = (rule for rule in self.rules if rule.effect == effect)
            self._naming[key] = [rule for rule in rules if rule.names(call.tool)]
        return next((rule.says for rule in self._naming[key] if rule.fits(call)), None)

    def _subject(self, tool: Tool, arguments: Arguments) -> Subject:
        def named() -> Iterable[str]:
            if tool.paths is not None:
                return tool.paths(**arguments)
            path = arguments.get("path")
            return (path,) if isinstance(path, str) else ()

        return Subject(tool.name, arguments, self.root, named, tool.command)


def _beyond(grant: Grant | None, reach: Reach | None) -> str | None:
    """What a call touches beside what was allowed of its tool."""
    if grant is None or reach is None or grant.covers(reach):
        return None
    if reach.subject != grant.subject or not reach.readable:
        return f"not covered by what you allowed: {reach.beyond(())}"
    return f"also touches: {reach.beyond(grant.kinds or ())}"


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
