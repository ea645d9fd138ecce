"""The sources of variables' values, as the user reads them.

A variable that the agent's code computes from others has their sources, so one decision about a
table covers everything computed from it. A name that holds another object has another source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ipyagent.kernel.describe.safe_inspect import ObjectIdentity

Labels = tuple[str, ...]


@dataclass(frozen=True)
class _NamedOrigin:
    value: ObjectIdentity
    labels: Labels


class Provenance:
    """The sources of the variables of one namespace."""

    def __init__(self) -> None:
        self._known: dict[str, _NamedOrigin] = {}
        self._replaced: dict[str, int] = {}

    def labels_of(self, name: str, value: object) -> Labels:
        """Return the sources of a variable's value, such as "values of df"."""
        known = self._known.get(name)
        if known is None or not known.value.is_same(value):
            count = self._replaced[name] = self._replaced.get(name, -1) + 1
            times = "" if count < 2 else f" {count} times"
            label = f"values of {name}" + (f" (replaced{times})" if count else "")
            known = self._known[name] = _NamedOrigin(ObjectIdentity(value), (label,))
        return known.labels

    def derive(
        self, names: Collection[str], labels: Labels, variables: Mapping[str, object]
    ) -> None:
        """Remember that code computed these variables from values with those sources."""
        for name in names:
            if name in variables:
                self._known[name] = _NamedOrigin(ObjectIdentity(variables[name]), labels)
