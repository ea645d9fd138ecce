"""Convert OpenAPI schemas into plain, bounded JSON Schema without references.

Untrusted patterns are never matched: they become a part of the description.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.plaintext import excerpt
from ipyagent.services.openapi.documents import Document

Schema = JsonDict

MAX_DEPTH = 12
MAX_TEXT = 300  # characters of a description, of an enumeration's value
MAX_CHOICES = 100

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def _is_number(value: Any) -> bool:
    # Not `isfinite`, which fails for whole numbers that no float can hold.
    is_numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return is_numeric and abs(value) <= sys.float_info.max


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


_KEYWORDS: dict[str, Callable[[Any], bool]] = {
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "minProperties": _is_count,
    "maxProperties": _is_count,
    "uniqueItems": lambda value: isinstance(value, bool),
    "format": lambda value: isinstance(value, str) and len(value) < 40,
}
"""The keywords with the same meaning everywhere, and checks of their values."""


class References:
    """Resolves `$ref` inside one document; nothing is ever fetched from elsewhere."""

    def __init__(self, document: Document) -> None:
        from referencing import Registry, Resource

        # Opaque, so that `$id` and anchors in the document do not change its references.
        registry: Registry[Any] = Registry().with_resource("", Resource.opaque(document))
        self._resolver = registry.resolver()
        self.has_external = False
        """True if a reference led out of the document."""

    def follow(self, node: object) -> Any:
        """Return the node, or the target of its reference; None if there is none."""
        for _ in range(MAX_DEPTH):
            if not isinstance(node, dict) or "$ref" not in node:
                return node
            node = self._look_up(node["$ref"])
        return None

    def _look_up(self, reference: object) -> Any:
        from referencing.exceptions import Unresolvable

        if not isinstance(reference, str) or not reference.startswith("#"):
            self.has_external = True
            return None
        try:
            return self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError):
            return None


class Converter:
    """Converts schemas of one document, together at most `budget` of them."""

    def __init__(self, references: References, budget: int) -> None:
        self._references, self._remaining = references, budget
        self._ancestors: list[int] = []

    def convert(self, node: object) -> Schema:
        """Return the schema in JSON Schema 2020-12, read-only properties left out.

        A part that refers to itself, or is too deep or too large, is reduced to its type.
        """
        schema = self._references.follow(node)
        if not isinstance(schema, dict):
            return {}
        if (
            id(schema) in self._ancestors
            or len(self._ancestors) >= MAX_DEPTH
            or self._remaining <= 0
        ):
            return _type_of(schema)
        self._remaining -= 1
        self._ancestors.append(id(schema))
        try:
            return _apply_nullable(schema, self._convert_keywords(schema))
        finally:
            self._ancestors.pop()

    def _convert_keywords(self, schema: Schema) -> Schema:
        new = (
            _type_of(schema) | _describe_constraints(schema) | _bounds(schema) | _constants(schema)
        )
        if isinstance(schema.get("properties"), dict):
            new |= self._convert_properties(schema)
        if isinstance(schema.get("items"), dict):
            new["items"] = self.convert(schema["items"])
        extra = schema.get("additionalProperties")
        if isinstance(extra, bool) and len(new.get("properties", ())) < MAX_CHOICES:
            new["additionalProperties"] = extra
        elif isinstance(extra, dict):
            new["additionalProperties"] = self.convert(extra)
        return new | self._combine(schema)

    def _convert_properties(self, schema: Schema) -> Schema:
        writable = (
            (name, each)
            for name, each in schema["properties"].items()
            if isinstance(name, str) and not self._is_read_only(each)
        )
        properties = {name: self.convert(each) for name, each in islice(writable, MAX_CHOICES)}
        required = schema.get("required")
        listed = required if isinstance(required, list) else []
        names = [name for name in listed if isinstance(name, str) and name in properties]
        return {"properties": properties} | ({"required": names} if names else {})

    def _combine(self, schema: Schema) -> Schema:
        combined: Schema = {}
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            if isinstance(parts, list) and 0 < len(parts) <= MAX_CHOICES:
                # Several parts may match once they are cut, which `oneOf` would refuse.
                name = "anyOf" if keyword == "oneOf" else keyword
                combined[name] = [self.convert(each) for each in parts]
        return combined

    def _is_read_only(self, node: object) -> bool:
        schema = self._references.follow(node)
        return isinstance(schema, dict) and schema.get("readOnly") is True


def _type_of(schema: Schema) -> Schema:
    declared = schema.get("type")
    if declared == "file" or "contentMediaType" in schema:
        return {"type": "string", "format": "binary"}
    if isinstance(declared, list):
        types = [each for each in dict.fromkeys(map(str, declared)) if each in _TYPES]
        return {"type": types} if types else {}
    if declared in _TYPES:
        return {"type": declared}
    return {"type": "object"} if isinstance(schema.get("properties"), dict) else {}


def _describe_constraints(schema: Schema) -> Schema:
    words = [excerpt(schema["description"], MAX_TEXT)] if schema.get("description") else []
    if isinstance(schema.get("pattern"), str):
        words.append(f"(pattern: {excerpt(schema['pattern'], 100)})")
    return {"description": " ".join(words)} if words else {}


def _bounds(schema: Schema) -> Schema:
    new = {
        key: schema[key] for key, fits in _KEYWORDS.items() if key in schema and fits(schema[key])
    }
    for side in ("Minimum", "Maximum"):
        limit = schema.get(side.lower())
        if schema.get(f"exclusive{side}") is True and _is_number(limit):
            new[f"exclusive{side}"] = limit
            new.pop(side.lower(), None)
    return new


def _constants(schema: Schema) -> Schema:
    new: Schema = {}
    choices = schema.get("enum")
    if (
        isinstance(choices, list)
        and 0 < len(choices) <= MAX_CHOICES
        and all(map(_is_short, choices))
    ):
        new["enum"] = choices
    for keyword in ("const", "default"):
        if keyword in schema and _is_short(schema[keyword]):
            new[keyword] = schema[keyword]
    return new


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or isinstance(value, bool) or _is_number(value)


def _apply_nullable(schema: Schema, new: Schema) -> Schema:
    """Convert `nullable` of OpenAPI 3.0 into a type."""
    if schema.get("nullable") is not True and schema.get("x-nullable") is not True:
        return new
    if "enum" in new and None not in new["enum"]:
        new["enum"] = [*new["enum"], None]
    declared = new.get("type")
    if declared is None:
        return {"anyOf": [new, {"type": "null"}]} if new else new
    types = declared if isinstance(declared, list) else [declared]
    return new | {"type": list(dict.fromkeys([*types, "null"]))}
