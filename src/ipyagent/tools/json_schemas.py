"""JSON Schemas from anywhere, converted into plain, bounded ones without references.

`References` finds what a schema refers to within its document: by path, by anchor, by the id of a
schema in it. `clean` reads one level as draft 2020-12 whatever the draft it was written for;
`Converter` makes a schema for models. What services do not take as a keyword becomes a part of the
description.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote, urljoin

from ipyagent.json_types import JsonDict, object_of, well_formed
from ipyagent.plaintext import clean_text, excerpt

Schema = JsonDict

REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
"""Keywords that refer to another schema; here none means another one in another place."""

_MANY_REFERENCES = 50
_MOST_LEVELS = 3  # references to places that are found by other references


class References:
    """Resolves references inside one document; nothing is ever fetched from elsewhere."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.external: str | None = None
        """A reference that led out of the document."""
        own = document.get("$id") or document.get("id")
        self._own = own if isinstance(own, str) else ""

    def follow(self, node: object) -> Any:
        """Return the node, or the target of its reference; None if there is none."""
        return self.resolve(node)[0]

    def resolve(self, node: object, depth: int = 0) -> tuple[Any, tuple[str, ...]]:
        """Return the node with what it refers to, and the references on the way."""
        names: dict[str, None] = {}
        while isinstance(node, dict) and (keys := [key for key in REFERRING if key in node]):
            reference = node[keys[0]]
            target = self.look_up(reference, depth)
            if target is None or reference in names or len(names) > _MANY_REFERENCES:
                return None, tuple(names)
            names[reference] = None
            beside = {key: value for key, value in node.items() if key != keys[0]}
            node = merge(target, beside) if beside and isinstance(target, dict) else target
        return node, tuple(names)

    def look_up(self, reference: object, depth: int = 0) -> object:
        """Return the target of one reference; None if there is none."""
        address, _, pointer = str(reference).partition("#")
        place = self._join(address)
        root = self.document if place == self._own else self._by_name.get(place)
        if not isinstance(reference, str) or root is None:
            self.external = self.external or str(reference)
            return None
        if pointer and not pointer.startswith("/"):
            return self._by_name.get(f"#{pointer}")
        found = self._walk(root, pointer, depth)
        if found is None and root is self.document:
            return self._by_name.get(f"#{unquote(pointer)}")
        return found

    def _join(self, address: str) -> str:
        try:
            return urljoin(self._own, address)
        except ValueError:  # as of `http://[`
            return address

    def _walk(self, node: object, pointer: str, depth: int) -> object:
        """Return what is at a path, which may lead through other references."""
        for part in unquote(pointer).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name not in node and depth < _MOST_LEVELS:
                node, _ = self.resolve(node, depth + 1)
            if isinstance(node, dict):
                node = node.get(name)
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return None
        return node

    @cached_property
    def _by_name(self) -> Schema:
        """The schemas by their ids and anchors, and definitions as if what has them were alone.

        Schemas that are put into another one still refer to their own definitions so.
        """
        named: Schema = {}
        seen: set[int] = set()  # a value with aliases comes up many times
        stack: list[object] = [self.document]
        while stack:
            node = stack.pop()
            if isinstance(node, list):
                stack += reversed(node)
            elif isinstance(node, dict) and id(node) not in seen:
                seen.add(id(node))
                stack += reversed(node.values())
                for key in ("$id", "$anchor", "$dynamicAnchor"):
                    if isinstance(name := node.get(key), str):
                        named.setdefault(self._join(name) if key == "$id" else f"#{name}", node)
                for key in ("$defs", "definitions"):
                    for name, each in object_of(node.get(key)).items():
                        named.setdefault(f"#/{key}/{name}", each)
        return named


def merge(first: Schema, second: Schema) -> Schema:
    """Return a schema with the keywords of both; the second's win."""
    merged = {**first, **second}
    for key in ("properties", "required", "allOf"):
        one, other = first.get(key), second.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            merged[key] = {**one, **other}
        elif isinstance(one, list) and isinstance(other, list):
            merged[key] = [*one, *(each for each in other if each not in one)]
    return merged


_TYPE_NAMES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}
_OTHER_NAMES = {
    **dict.fromkeys(("str", "text", "char", "date", "datetime", "file"), "string"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "map", "json"), "object"),
    **dict.fromkeys(("any", "mixed", "unknown"), None),
    "bool": "boolean",
    "none": "null",
}
_LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")

SUBSCHEMAS = (
    *("items", "additionalProperties", "contains", "propertyNames"),
    *("not", "if", "then", "else"),
)
SUBSCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SUBSCHEMA_MAPS = ("properties", "dependentSchemas")
_LITERAL = {"const", "enum", "dependentRequired", "dependentSchemas"}
CONDITIONS = ("anyOf", "oneOf", "not", "if", "then", "else", *sorted(_LITERAL))
"""Keywords for which a service has no place at the top."""

_IN_WORDS = ("pattern", "examples", *_LENGTHS, *CONDITIONS)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a number that JSON can express."""
    # Not `isfinite`, which fails for whole numbers that no float can hold.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


def _is_count(value: object) -> bool:
    return isinstance(value, int) and is_number(value) and value >= 0


_BOUNDS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    "multipleOf": lambda value: is_number(value) and value > 0,
    **dict.fromkeys((*_LENGTHS, "minProperties", "maxProperties"), _is_count),
    "uniqueItems": lambda value: isinstance(value, bool),
    "format": lambda value: isinstance(value, str) and len(value) < 40,
}
"""Keywords with the same meaning everywhere, and checks of their values."""

_ACCEPTED: dict[str, Callable[[object], bool]] = {
    **_BOUNDS,
    **dict.fromkeys(("description", "pattern"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list)),
    **dict.fromkeys(("const", "default"), lambda _: True),
    "readOnly": lambda value: isinstance(value, bool),
    "dependentRequired": lambda value: all(
        isinstance(each, list) for each in (object_of(value) or {"": None}).values()
    ),
}


def clean(schema: Schema) -> Schema:
    """Return one level of a schema as draft 2020-12 has it.

    Keywords that are unknown, or have a value without a meaning, are left out: they only restrict.
    Names are not checked by patterns, so an object with such names takes any.
    """
    new: Schema = {}
    for key, value in schema.items():
        if key in SUBSCHEMA_MAPS and isinstance(value, dict):
            new[key] = {name: _as_schema(each) for name, each in value.items()}
        elif key in SUBSCHEMA_LISTS and isinstance(value, list | dict):
            parts = value if isinstance(value, list) else [value]
            new |= {key: [*map(_as_schema, parts)]} if parts else {}
        elif key == "items" and isinstance(value, list):  # a tuple of older drafts
            new |= {"prefixItems": [*map(_as_schema, value)]} if value else {}
        elif key in SUBSCHEMAS and isinstance(value, dict | bool | str):
            new[key] = _as_schema(value)
        elif key in _ACCEPTED and _ACCEPTED[key](value):
            new[key] = value
    if "prefixItems" in new and isinstance(more := schema.get("additionalItems"), bool | dict):
        new["items"] = more
    if references := [schema[key] for key in REFERRING if isinstance(schema.get(key), str)]:
        new["$ref"] = references[0]
    for side in ("Minimum", "Maximum"):
        if schema.get(f"exclusive{side}") is True and side.lower() in new:
            new[f"exclusive{side}"] = new.pop(side.lower())
    if schema.get("patternProperties"):
        new["additionalProperties"] = True
    return _clean_types(schema, new | _clean_required(schema))


def _as_schema(value: object) -> object:
    """Return the schema that is meant; `"string"` is short for a type."""
    if isinstance(value, str | list):
        return {"type": value}
    return value if isinstance(value, dict | bool) else {}


def _clean_required(schema: Schema) -> Schema:
    names = [each for each in _as_list(schema.get("required")) if isinstance(each, str)]
    # Draft 3 has the word inside the property.
    inside = object_of(schema.get("properties")).items()
    names += [name for name, each in inside if object_of(each).get("required") is True]
    return {"required": [*dict.fromkeys(names)]} if names else {}


def _clean_types(schema: Schema, new: Schema) -> Schema:
    """Add the type and the enumeration, with null if OpenAPI 3.0 or Swagger allow it."""
    given = schema.get("type")
    names = [_plain_type(each) for each in _as_list(given)]
    types = [*dict.fromkeys(names)] if given and None not in names else []
    choices = [*{json.dumps(each, default=str): each for each in new.pop("enum", [])}.values()]
    if schema.get("nullable") is True or schema.get("x-nullable") is True:
        types += ["null"] * bool(types and "null" not in types)
        choices += [None] * bool(choices and None not in choices)
        if not types and not choices and new.keys() & {"$ref", "const", *SUBSCHEMA_LISTS}:
            return {"anyOf": [new, {"type": "null"}]}
    new |= {"enum": choices} if choices else {}
    return new | ({"type": types[0] if len(types) == 1 else types} if types else {})


def _plain_type(name: object) -> str | None:
    """Return the type's name in JSON Schema; None for any type."""
    known = str(name) if str(name) in _TYPE_NAMES.values() else str(name).lower()
    return _OTHER_NAMES.get(known, known)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


class Limits(NamedTuple):
    """The limits of a conversion."""

    depth: int
    schemas: int
    """The number of schemas inside one another and beside each other."""
    text: int
    """Characters of a description, of an enumeration's value."""
    choices: int
    """The number of properties, of values in an enumeration."""


_WIDTH = 300  # characters of a keyword in words
_DEFAULTS = 50  # values of a default
_LONG = 1_000
"""Lengths from here on are put in words: llama.cpp refuses all tools for one such bound."""


class Converter:
    """Converts schemas of one document, together at most as many as its limits say.

    `for_requests` leaves out what a service sets itself.
    """

    def __init__(
        self, references: References, limits: Limits, *, for_requests: bool = False
    ) -> None:
        self.references, self.limits = references, limits
        self.is_exhausted = False
        """True if there were more schemas than allowed."""
        self.unknown_types: list[object] = []
        self._remaining, self._for_requests = limits.schemas, for_requests
        self._ancestors: list[tuple[str, ...]] = []

    def convert(self, node: object) -> Schema:
        """Return the schema in JSON Schema 2020-12.

        A part that refers to itself, or is too deep or too large, is reduced to its type.
        """
        found, names = self.references.resolve(node)
        if not isinstance(found, dict):
            return {}
        schema = clean(found)
        self.is_exhausted |= self._remaining <= 0
        if (
            {*names} & {*chain(*self._ancestors)}
            or len(self._ancestors) >= self.limits.depth
            or self._remaining <= 0
        ):
            return self._type_of(schema)
        self._remaining -= 1
        self._ancestors.append(names)
        try:
            return self._convert_keywords(schema)
        finally:
            self._ancestors.pop()

    def _convert_keywords(self, schema: Schema) -> Schema:
        is_long = {key for key in _LENGTHS if schema.get(key, 0) >= _LONG}
        new = self._type_of(schema)
        new |= {key: schema[key] for key in _BOUNDS if key in schema and key not in is_long}
        new |= self._convert_constants(schema)
        listed = new.get("enum") or schema.get("enum", ())
        kinds = [*dict.fromkeys(_TYPE_NAMES.get(type(each)) for each in listed)]
        if "type" not in new and kinds and None not in kinds:
            new["type"] = kinds[0] if len(kinds) == 1 else kinds
        combined = self._combine(schema)
        sent = {*new, *combined, *("const",) * ("enum" in new), *("oneOf",) * ("anyOf" in combined)}
        if words := self._describe(schema, sent):
            new["description"] = words
        if "properties" in schema:
            new |= self._convert_properties(schema)
        new |= self._convert_items(schema)
        extra = schema.get("additionalProperties")
        if isinstance(extra, bool) and len(new.get("properties", ())) < self.limits.choices:
            new["additionalProperties"] = extra
        elif isinstance(extra, dict):
            new["additionalProperties"] = self.convert(extra)
        new |= combined
        for part in map(self.convert, schema.get("allOf", ())[: self.limits.choices]):
            new = merge(part, new)  # Gemini takes no `allOf`
        if "anyOf" in new and "type" in new:  # Moonshot wants it in each part, and only there
            own = {"type": new.pop("type")}
            new["anyOf"] = [own | each for each in new["anyOf"]]
        return new

    def _type_of(self, schema: Schema) -> Schema:
        given = _as_list(schema.get("type", []))
        types = [each for each in given if each in _TYPE_NAMES.values()]
        self.unknown_types += [each for each in given if each not in types]
        if types:
            new: Schema = {"type": types[0] if isinstance(schema["type"], str) else types}
            return new | ({"items": {}} if "array" in types else {})
        return {"type": "object"} if "properties" in schema else {}

    def _describe(self, schema: Schema, sent: set[str]) -> str:
        """Return the description, and in words what is not `sent` as a keyword."""
        text, limit = schema.get("description", ""), self.limits.text
        words = [excerpt(text, limit) if self._for_requests else clean_text(text)[:limit]]
        rest = {key: schema[key] for key in _IN_WORDS if key in schema and key not in sent}
        words += (
            f"({key}: {excerpt(json.dumps(value, default=str), _WIDTH)})"
            for key, value in rest.items()
        )
        return " ".join(filter(None, words))

    def _convert_properties(self, schema: Schema) -> Schema:
        offered = (
            (name, each)
            for name, each in schema["properties"].items()
            if isinstance(name, str) and each is not False and not self._is_left_out(each)
        )
        some = islice(offered, self.limits.choices)
        properties = {name: self.convert(each) for name, each in some}
        names = [name for name in schema.get("required", ()) if name in properties]
        return {"properties": properties} | ({"required": names} if names else {})

    def _is_left_out(self, node: object) -> bool:
        schema = self.references.follow(node) if self._for_requests else None
        return isinstance(schema, dict) and schema.get("readOnly") is True

    def _convert_items(self, schema: Schema) -> Schema:
        """Return the items of an array: services take one schema for all of them."""
        places = [self.convert(each) for each in schema.get("prefixItems", ())]
        if isinstance(rest := schema.get("items"), dict):
            places.append(self.convert(rest))
        kinds = [each for n, each in enumerate(places) if each not in places[:n]]
        if len(kinds) > 1:
            return {"items": {"anyOf": kinds, "description": "in this order"}}
        is_array = "array" in _as_list(schema.get("type"))
        return {"items": kinds[0]} if kinds else {"items": {}} if is_array else {}

    def _convert_constants(self, schema: Schema) -> Schema:
        new: Schema = {}
        choices = [schema["const"]] if "const" in schema else schema.get("enum", ())
        if 0 < len(choices) <= self.limits.choices and all(map(self._is_short, choices)):
            new["enum"] = choices
        default = schema.get("default")
        parts = [*chain(*default.items())] if isinstance(default, dict) else _as_list(default)
        if default is not None and len(parts) <= _DEFAULTS and all(map(self._is_short, parts)):
            new["default"] = default
        return new

    def _is_short(self, value: object) -> bool:
        if isinstance(value, str):
            return len(value) <= self.limits.text and value == well_formed(value)
        return value is None or isinstance(value, bool) or is_number(value)

    def _combine(self, schema: Schema) -> Schema:
        combined: Schema = {}
        for keyword in ("anyOf", "oneOf"):
            parts = schema.get(keyword, ())[: self.limits.choices]
            converted = [self.convert(each) for each in parts]
            if any(converted):  # else they only require what stands beside them
                # Several parts may match once they are cut, which `oneOf` would refuse.
                combined["anyOf"] = converted
        return combined
