"""Where the values of variables come from, in the words in which the user is told of it.

What the agent's own code makes of variables alone comes from where those came from, so that one
decision about a table holds for all that is computed of it. A name that holds another object comes
from somewhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ipyagent.kernel.touched import Held

Labels = tuple[str, ...]


@dataclass(frozen=True)
class _Known:
    value: Held
    labels: Labels


class Provenance:
    """The origins of the variables of one namespace."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._replaced: dict[str, int] = {}

    def labels_of(self, name: str, value: object) -> Labels:
        """Return the origins of a variable's value, such as "values of df"."""
        known = self._known.get(name)
        if known is None or not known.value.is_still(value):
            count = self._replaced[name] = self._replaced.get(name, -1) + 1
            times = "" if count < 2 else f" {count} times"
            label = f"values of {name}" + (f" (replaced{times})" if count else "")
            known = self._known[name] = _Known(Held(value), (label,))
        return known.labels

    def derive(
        self, names: Collection[str], labels: Labels, variables: Mapping[str, object]
    ) -> None:
        """Remember that code made these variables of what has those origins."""
        for name in names:
            if name in variables:
                self._known[name] = _Known(Held(variables[name]), labels)
