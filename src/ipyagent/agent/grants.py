"""What the user allowed beyond one call, and of which words they knew when they did."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ipyagent.tools.reach import Reach, coverage


@dataclass(frozen=True)
class Grant:
    """What an "Always" covers: calls that touch no more than `kinds`; None where nothing is read.

    `subject` is what is read, such as "code".
    """

    kinds: frozenset[str] | None = None
    subject: str = ""

    def covers(self, reach: Reach | None) -> bool:
        """Return whether a call of that reach is within what was allowed."""
        if self.kinds is None or reach is None:
            return self.kinds is None and reach is None
        if reach.subject != self.subject:
            return False
        return reach.readable and reach.kinds <= self.kinds

    def with_reach(self, reach: Reach | None) -> Grant:
        """Return the grant that covers a call of that reach as well."""
        if reach is None or reach.subject != self.subject:
            return grant_of(reach)
        return Grant((self.kinds or frozenset()) | reach.kinds, self.subject)

    def __str__(self) -> str:
        return "" if self.kinds is None else coverage(self.subject, self.kinds)


def grant_of(reach: Reach | None) -> Grant:
    """Return the grant that covers a call of that reach."""
    return Grant() if reach is None else Grant(reach.kinds, reach.subject)


@dataclass
class Grants:
    """The approvals of one session."""

    _tools: dict[str, Grant] = field(default_factory=dict)
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    def allow(self, tool: str, reach: Reach | None = None) -> None:
        """Let calls of a tool run unasked that touch no more than this one."""
        old = self._tools.get(tool)
        self._tools[tool] = old.with_reach(reach) if old else grant_of(reach)

    def accept(self, tool: str, sources: Collection[str]) -> None:
        """Remember that a call of the tool was approved after those words had been read."""
        self._known[tool] = self.known(tool) | frozenset(sources)

    def known(self, tool: str) -> frozenset[str]:
        """Return the sources that need no further question for that tool."""
        return self._known.get(tool, frozenset())

    def revoke(self, tool: str) -> None:
        """Ask about the tool again, and about what was read."""
        self._tools.pop(tool, None)
        self._known.pop(tool, None)

    def get(self, tool: str) -> Grant | None:
        """Return what was allowed of that tool."""
        return self._tools.get(tool)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._tools))

    def __contains__(self, tool: object) -> bool:
        return tool in self._tools

    def __len__(self) -> int:
        return len(self._tools)
