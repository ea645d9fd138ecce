"""Conditions of JSON Schemas in words, for those that services do not take as keywords."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from ipyagent.json_types import JsonDict
from ipyagent.plaintext import excerpt

_WIDTH = 200  # characters of a condition that has no words
_MOST = 10  # parts of a condition
_DEPTH = 3
_COMBINED = {"anyOf": "Give at least one of", "oneOf": "Give exactly one of"}


@dataclass(frozen=True)
class Conditions:
    """Words for conditions.

    `resolve` follows a reference, `rename` returns the name under which a property is offered.
    """

    resolve: Callable[[object], JsonDict | None]
    rename: Callable[[str], str]

    def describe(self, schema: JsonDict, depth: int = _DEPTH) -> Iterator[str]:
        """Yield a sentence for each condition of a schema."""
        for keyword, beginning in _COMBINED.items():
            if parts := schema.get(keyword):
                words = "; or ".join(self._words(each, depth) for each in parts[:_MOST])
                yield f"{beginning}: {words}{'; …' * (len(parts) > _MOST)}."
        if "not" in schema:
            yield f"Not allowed: {self._words(schema['not'], depth)}."
        for keyword, beginning in (("then", "If"), ("else", "Unless")):
            if "if" in schema and keyword in schema:
                condition = self._words(schema["if"], depth)
                yield f"{beginning} {condition}: {self._words(schema[keyword], depth)}."
        for name, others in islice(schema.get("dependentRequired", {}).items(), _MOST):
            yield f"With {self._names([name])} give {self._names(others)}."
        for name, node in islice(schema.get("dependentSchemas", {}).items(), _MOST):
            yield f"With {self._names([name])}: {self._words(node, depth)}."

    def _words(self, node: object, depth: int) -> str:
        """Return what a part asks for: arguments, fixed values, or its JSON."""
        schema = (self.resolve(node) if depth else None) or {}
        properties, required = schema.get("properties", {}), schema.get("required", [])
        parts = []
        for name in islice(dict.fromkeys([*required, *properties]), _MOST):
            about = self.resolve(properties.get(name)) or {}
            fixed = [about["const"]] if "const" in about else about.get("enum", [])
            values = " or ".join(
                excerpt(json.dumps(each, default=str), 60) for each in fixed[:_MOST]
            )
            if name in required or values:
                parts.append(self._names([name]) + (f" = {values}" if values else ""))
        parts += [each.rstrip(".") for each in self.describe(schema, depth - 1)]
        parts += [self._words(each, depth - 1) for each in schema.get("allOf", [])[:_MOST]]
        if parts or properties:
            return " and ".join(parts) or f"any of {self._names(properties)}"
        if not schema:
            return "anything" if depth else "…"
        return excerpt(json.dumps(schema, default=str), _WIDTH)

    def _names(self, names: Iterable[object]) -> str:
        some = islice(names, _MOST)
        return ", ".join(f"`{excerpt(self.rename(str(each)), 64)}`" for each in some)
