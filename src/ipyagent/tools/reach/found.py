"""What reading found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ipyagent.plaintext import visible

READS = "files (reads)"
WRITES = "files (writes)"
NETWORK = "network"
PROCESSES = "processes"
ENVIRONMENT = "environment"
UNREADABLE = "cannot be told by reading"

ORDER = (UNREADABLE, NETWORK, PROCESSES, WRITES, READS, ENVIRONMENT)
"""The gravest first."""

_DOES = {
    READS: "reads files",
    WRITES: "writes files",
    NETWORK: "uses the network",
    PROCESSES: "starts processes",
    ENVIRONMENT: "reads the environment",
}
_LONGEST = 60


@dataclass(frozen=True)
class Reach:
    """What a call would touch beside variables, each with the words that show it.

    `names` are the variables that it loads and `paths` the files that it names; `redefines` are the
    variables that are there already and that it gives another value.
    """

    touches: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    redefines: tuple[str, ...] = ()
    subject: str = "code"

    @property
    def kinds(self) -> frozenset[str]:
        """What it touches, without the words."""
        return frozenset(self.touches)

    @property
    def readable(self) -> bool:
        """Whether reading can tell what it touches."""
        return UNREADABLE not in self.touches

    def line(self) -> str:
        """Return what it touches in a line such as "touches: network (requests); redefines df"."""
        named = ", ".join(_named(kind, self.touches[kind]) for kind in ordered(self.touches))
        parts = [f"touches: {named}" if named else "", redefined(self.redefines)]
        return "; ".join(part for part in parts if part)

    def beyond(self, kinds: Collection[str]) -> str:
        """Return what it touches beside `kinds`, in words; "" where that is nothing."""
        more = [kind for kind in ordered(self.touches) if kind not in kinds]
        return ", ".join(_named(kind, self.touches[kind]) for kind in more)


def redefined(names: Collection[str]) -> str:
    """Return "redefines df and x", or ""."""
    some = [visible(name) for name in list(names)[:3]]
    more = [f"{len(names) - 3} more"] if len(names) > 3 else []
    return f"redefines {', '.join([*some, *more])}" if some else ""


def ordered(kinds: Collection[str]) -> list[str]:
    """Return the kinds, the gravest first."""
    rank = {kind: n for n, kind in enumerate(ORDER)}
    return sorted(kinds, key=lambda kind: (rank.get(kind, len(ORDER)), kind))


def coverage(subject: str, kinds: Collection[str]) -> str:
    """Return what an approval beyond one call covers: "code that only works on variables"."""
    if subject == "commands":
        return "commands that only run " + " and ".join(sorted(kinds))
    does = [_DOES.get(kind, kind) for kind in ordered(kinds)]
    base = "only works on variables" if subject == "code" else "only computes"
    if not does:
        return f"{subject} that {base}"
    return f"{subject} that {', '.join(does)}"


def _named(kind: str, shown: str) -> str:
    text = " ".join(visible(shown).split())
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{kind} ({text})" if text else kind
