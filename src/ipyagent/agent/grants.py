"""Approvals beyond one call, and the sources that had been read when they were given."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

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
