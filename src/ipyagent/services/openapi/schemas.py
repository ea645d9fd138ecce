"""OpenAPI's schemas as the JSON Schema that a model is told: plain, without references, bounded.

What a stranger wrote is never matched as a regular expression: patterns become words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.services.openapi.documents import Document, told

Schema = JsonDict

MAX_DEPTH = 12
MAX_TEXT = 300  # characters of a description, of an enumeration's value
MAX_CHOICES = 100

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def _number(value: Any) -> bool:
    # Not `isfinite`, which fails for whole numbers that no float can hold.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _count(value: object) -> bool:
    return isinstance(value, int) and _number(value) and value >= 0


_KEPT: dict[str, Callable[[Any], bool]] = {
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": lambda value: _number(value) and value > 0,
    "minLength": _count,
    "maxLength": _count,
    "minItems": _count,
    "maxItems": _count,
    "minProperties": _count,
    "maxProperties": _count,
    "uniqueItems": lambda value: isinstance(value, bool),
    "format": lambda value: isinstance(value, str) and len(value) < 40,
}
"""The keywords that mean the same everywhere, and what their values have to be."""


class References:
    """What `$ref` leads to inside of one document; nothing is ever fetched from elsewhere."""

    def __init__(self, document: Document) -> None:
        from referencing import Registry, Resource

        # Opaque: neither `$id` nor an anchor in the document says what it is a part of.
        registry: Registry[Any] = Registry().with_resource("", Resource.opaque(document))
        self._resolver = registry.resolver()
        self.elsewhere = False
        """Whether something led out of the document."""

    def follow(self, node: object) -> Any:
        """What the node stands for: itself, or what its reference leads to; None where nowhere."""
        for _ in range(MAX_DEPTH):
            if not isinstance(node, dict) or "$ref" not in node:
                return node
            node = self._look_up(node["$ref"])
        return None

    def _look_up(self, reference: object) -> Any:
        from referencing.exceptions import Unresolvable

        if not isinstance(reference, str) or not reference.startswith("#"):
            self.elsewhere = True
            return None
        try:
            return self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError):
            return None


class Converter:
    """Converts schemas of one document, together at most `budget` of them."""

    def __init__(self, references: References, budget: int) -> None:
        self._references, self._left = references, budget
        self._open: list[int] = []

    def convert(self, node: object) -> Schema:
        """The schema in JSON Schema 2020-12, read-only properties left out.

        Where it comes back to itself, is too deep or too large, the rest may be anything.
        """
        schema = self._references.follow(node)
        if not isinstance(schema, dict):
            return {}
        if id(schema) in self._open or len(self._open) >= MAX_DEPTH or self._left <= 0:
            return _type_of(schema)
        self._left -= 1
        self._open.append(id(schema))
        try:
            return _nullable(schema, self._keywords(schema))
        finally:
            self._open.pop()

    def _keywords(self, schema: Schema) -> Schema:
        new = _type_of(schema) | _described(schema) | _bounds(schema) | _values(schema)
        if isinstance(schema.get("properties"), dict):
            new |= self._properties(schema)
        if isinstance(schema.get("items"), dict):
            new["items"] = self.convert(schema["items"])
        extra = schema.get("additionalProperties")
        if isinstance(extra, bool) and len(new.get("properties", ())) < MAX_CHOICES:
            new["additionalProperties"] = extra
        elif isinstance(extra, dict):
            new["additionalProperties"] = self.convert(extra)
        return new | self._combined(schema)

    def _properties(self, schema: Schema) -> Schema:
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

    def _combined(self, schema: Schema) -> Schema:
        found: Schema = {}
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            if isinstance(parts, list) and 0 < len(parts) <= MAX_CHOICES:
                # Of parts that were cut, several may fit where one did: `oneOf` would refuse.
                name = "anyOf" if keyword == "oneOf" else keyword
                found[name] = [self.convert(each) for each in parts]
        return found

    def _is_read_only(self, node: object) -> bool:
        schema = self._references.follow(node)
        return isinstance(schema, dict) and schema.get("readOnly") is True


def _type_of(schema: Schema) -> Schema:
    said = schema.get("type")
    if said == "file" or "contentMediaType" in schema:
        return {"type": "string", "format": "binary"}
    if isinstance(said, list):
        types = [each for each in dict.fromkeys(map(str, said)) if each in _TYPES]
        return {"type": types} if types else {}
    if said in _TYPES:
        return {"type": said}
    return {"type": "object"} if isinstance(schema.get("properties"), dict) else {}


def _described(schema: Schema) -> Schema:
    words = [told(schema["description"], MAX_TEXT)] if schema.get("description") else []
    if isinstance(schema.get("pattern"), str):
        words.append(f"(pattern: {told(schema['pattern'], 100)})")
    return {"description": " ".join(words)} if words else {}


def _bounds(schema: Schema) -> Schema:
    new = {key: schema[key] for key, fits in _KEPT.items() if key in schema and fits(schema[key])}
    for side in ("Minimum", "Maximum"):
        limit = schema.get(side.lower())
        if schema.get(f"exclusive{side}") is True and _number(limit):
            new[f"exclusive{side}"] = limit
            new.pop(side.lower(), None)
    return new


def _values(schema: Schema) -> Schema:
    new: Schema = {}
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= MAX_CHOICES and all(map(_short, choices)):
        new["enum"] = choices
    for keyword in ("const", "default"):
        if keyword in schema and _short(schema[keyword]):
            new[keyword] = schema[keyword]
    return new


def _short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or isinstance(value, bool) or _number(value)


def _nullable(schema: Schema, new: Schema) -> Schema:
    """`nullable`, of OpenAPI 3.0, as a type."""
    if schema.get("nullable") is not True and schema.get("x-nullable") is not True:
        return new
    if "enum" in new and None not in new["enum"]:
        new["enum"] = [*new["enum"], None]
    said = new.get("type")
    if said is None:
        return {"anyOf": [new, {"type": "null"}]} if new else new
    types = said if isinstance(said, list) else [said]
    return new | {"type": list(dict.fromkeys([*types, "null"]))}
