"""JSON Schemas from anywhere, converted into plain, bounded ones without references.

`clean` reads one level as draft 2020-12 whatever the draft it was written for; `Converter` makes
a schema for models. Patterns are not matched by services, so they become a part of the description.

Conditions that services do not take as keywords are put in words.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple, TypeGuard

from ipyagent.json_types import JsonDict, well_formed
from ipyagent.plaintext import clean_text, excerpt
from ipyagent.tools.schema_references import REFERRING, References, Schema, merge

_WIDTH = 200  # characters of a condition that has no words
_MOST = 10  # parts of a condition
_DEFAULTS = 50  # values of a default
_DEPTH = 3
_NAMES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}
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


_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")

_OTHER_TYPES = {
    **dict.fromkeys(("str", "text", "char", "date", "datetime"), "string"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "map", "json"), "object"),
    "bool": "boolean",
    "none": "null",
}
_ANY_TYPE = ("any", "mixed", "unknown")


class Limits(NamedTuple):
    """The limits of a conversion."""

    depth: int
    schemas: int
    """The number of schemas inside one another and beside each other."""
    text: int
    """Characters of a description, of an enumeration's value."""
    choices: int
    """The number of properties, of values in an enumeration."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a number that JSON can express."""
    # Not `isfinite`, which fails for whole numbers that no float can hold.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


def _is_count(value: object) -> bool:
    return isinstance(value, int) and is_number(value) and value >= 0


_LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")
_LONG = 1_000
"""Lengths from here on are told in words: llama.cpp refuses all tools for one such bound."""


def _is_long(key: str, schema: JsonDict) -> bool:
    return key in _LENGTHS and schema.get(key, 0) >= _LONG


_BOUNDS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    "multipleOf": lambda value: is_number(value) and value > 0,
    **dict.fromkeys(_LENGTHS, _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    "uniqueItems": lambda value: isinstance(value, bool),
    "format": lambda value: isinstance(value, str) and len(value) < 40,
}
"""Keywords with the same meaning everywhere, and checks of their values."""

SUBSCHEMAS = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else"),
    *("propertyNames", "unevaluatedProperties", "unevaluatedItems"),
)
SUBSCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SUBSCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas")
_DESCRIBING = {"$ref", "const", *SUBSCHEMA_LISTS}

_ACCEPTED: dict[str, Callable[[object], bool]] = {
    **_BOUNDS,
    **dict.fromkeys(("description", "pattern", "$ref"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list)),
    **dict.fromkeys(("const", "default"), lambda _: True),
    "readOnly": lambda value: isinstance(value, bool),
}
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*SUBSCHEMAS, *SUBSCHEMA_LISTS), (dict, list, bool, str)),
    **dict.fromkeys(SUBSCHEMA_MAPS, (dict,)),
    "properties": (dict, list, bool, str, int, float),  # what is no object is refused elsewhere
}


def others_of(schema: Schema) -> object:
    """Return what an object takes besides its properties; None if nothing is said of it.

    With patterns of names, which are not sent, `false` would forbid the names that match.
    """
    others = schema.get("additionalProperties")
    return None if others is False and schema.get("patternProperties") else others


def clean(schema: Schema) -> Schema:
    """Return one level of a schema as draft 2020-12 has it.

    Keywords that are unknown, or have a value without a meaning, are left out: they only restrict.
    What might describe anything, such as a type that nobody knows, stays and is refused elsewhere.
    """
    new: Schema = {}
    for key, value in schema.items():
        if key in _ACCEPTED:
            if _ACCEPTED[key](value):
                new[key] = value
        elif isinstance(value, _KINDS.get(key, ())) and value != []:
            new[key] = _clean_subschemas(key, value)
    if references := [schema[key] for key in REFERRING if isinstance(schema.get(key), str)]:
        new["$ref"] = references[0]
    for side in ("Minimum", "Maximum"):
        if schema.get(f"exclusive{side}") is True and side.lower() in new:
            new[f"exclusive{side}"] = new.pop(side.lower())
    if isinstance(new.get("items"), list):  # a tuple of older drafts
        new["prefixItems"] = new.pop("items")
        if isinstance(more := schema.get("additionalItems"), bool | dict):
            new["items"] = more
    for word in ("dependencies", "dependentRequired"):
        for name, needed in _entries(schema.get(word)):
            if isinstance(needed, list):
                names = [each for each in needed if isinstance(each, str)]
                new.setdefault("dependentRequired", {})[name] = names
            elif isinstance(needed, dict | bool):
                new.setdefault("dependentSchemas", {})[name] = needed
    choices = new.pop("enum", [])
    new |= _clean_required(schema) | _clean_types(schema, choices)
    if _is_nullable(schema) and not new.keys() & {"type", "enum"} and new.keys() & _DESCRIBING:
        return {"anyOf": [new, {"type": "null"}]}
    return new


def _clean_subschemas(key: str, value: object) -> object:
    if key in SUBSCHEMA_MAPS:
        if isinstance(value, dict):
            return {name: _as_schema(each) for name, each in value.items()}
        return value
    if key in SUBSCHEMA_LISTS or (key == "items" and isinstance(value, list)):
        return [*map(_as_schema, value if isinstance(value, list) else [value])]
    return _as_schema(value)


def _as_schema(value: object) -> object:
    """Return the schema that is meant; `"string"` is short for a type."""
    if isinstance(value, str | list):
        return {"type": value}
    return value if isinstance(value, dict | bool) else {}


def _clean_required(schema: Schema) -> Schema:
    required = schema.get("required")
    listed = [required] if isinstance(required, str) else required
    names = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    # Draft 3 has the word inside the property.
    names += [
        name
        for name, each in _entries(schema.get("properties"))
        if isinstance(each, dict) and each.get("required") is True
    ]
    return {"required": [*dict.fromkeys(names)]} if names else {}


def _clean_types(schema: Schema, choices: list[object]) -> Schema:
    """Return the type and the enumeration, with null if the schema is nullable."""
    given = schema.get("type")
    names = [_plain_type(each) for each in _as_list(given)]
    types = [*dict.fromkeys(names)] if given and None not in names else []
    choices = [*{json.dumps(each, default=str): each for each in choices}.values()]
    if _is_nullable(schema):
        types += ["null"] * bool(types and "null" not in types)
        choices += [None] * bool(choices and None not in choices)
    cleaned: Schema = {"enum": choices} if choices else {}
    if types:
        cleaned["type"] = types[0] if len(types) == 1 else types
    if given == "file" or "contentMediaType" in schema:
        return cleaned | {"type": "string", "format": "binary"}
    return cleaned


def _is_nullable(schema: Schema) -> bool:
    """Return whether OpenAPI 3.0, or Swagger's extension, allows null as well."""
    return schema.get("nullable") is True or schema.get("x-nullable") is True


def _plain_type(name: object) -> str | None:
    """Return the type's name in JSON Schema; None for any type."""
    known = str(name) if str(name) in _TYPES else str(name).lower()
    return None if known in _ANY_TYPE else _OTHER_TYPES.get(known, known)


def _entries(value: object) -> list[tuple[str, object]]:
    return [*value.items()] if isinstance(value, Mapping) else []


_MERGED = {"properties", "required", "description", "default"}
"""Keywords that parts of an `allOf` may have in common, and still be one schema."""


class Converter:
    """Converts schemas of one document, together at most as many as its limits say.

    `rename` returns the name under which a property is offered; `for_requests` leaves out what a
    service sets itself.
    """

    def __init__(
        self,
        references: References,
        limits: Limits,
        rename: Callable[[str], str] = str,
        *,
        for_requests: bool = False,
    ) -> None:
        self.references, self.limits = references, limits
        self.is_exhausted = False
        """True if there were more schemas than allowed."""
        self._remaining, self.rename, self._for_requests = limits.schemas, rename, for_requests
        self._ancestors: list[tuple[str, ...]] = []
        self.conditions = Conditions(self.resolve, rename)

    def resolve(self, node: object) -> Schema | None:
        """Return a node as `clean` does, its reference followed; None if it is no object."""
        found = self.references.follow(node)
        return _read(found) if isinstance(found, dict) else None

    def convert(self, node: object) -> Schema:
        """Return the schema in JSON Schema 2020-12.

        A part that refers to itself, or is too deep or too large, is reduced to its type.
        """
        found, names = self.references.resolve(node)
        if not isinstance(found, dict):
            return {}
        schema = _read(found)
        if set(names) & {each for listed in self._ancestors for each in listed}:
            return _type_of(schema)
        if len(self._ancestors) >= self.limits.depth or self._remaining <= 0:
            self.is_exhausted |= self._remaining <= 0
            return _type_of(schema)
        self._remaining -= 1
        self._ancestors.append(names)
        try:
            return self._convert_keywords(schema)
        finally:
            self._ancestors.pop()

    def _describe(self, schema: Schema, combined: Schema) -> str:
        """Return the description, and in words what is not sent as a keyword."""
        text, limit = schema.get("description", ""), self.limits.text
        words = [excerpt(text, limit) if self._for_requests else clean_text(text)[:limit]]
        if "pattern" in schema:
            words.append(f"(pattern: {excerpt(schema['pattern'], 100)})")
        if schema.get("examples"):
            words.append(
                f"(for example: {excerpt(json.dumps(schema['examples'], default=str)[1:-1], 200)})"
            )
        choices = [schema["const"]] if "const" in schema else schema.get("enum", ())
        is_plain = not any(isinstance(each, dict | list) for each in choices)
        if choices and not (is_plain and len(choices) <= self.limits.choices):
            some = ", ".join(excerpt(json.dumps(each, default=str), 40) for each in choices[:_MOST])
            more = len(choices) > _MOST
            words.append(f"(one of{f' {len(choices):,} values, such as' * more} {some})")
        words += (f"({key}: {schema[key]})" for key in _LENGTHS if _is_long(key, schema))
        sent = ("anyOf", "oneOf") if "anyOf" in combined else ()
        words += self.conditions.describe({k: v for k, v in schema.items() if k not in sent})
        return " ".join(filter(None, words))

    def _convert_keywords(self, schema: Schema) -> Schema:
        new = _type_of(schema) | {
            key: schema[key] for key in _BOUNDS if key in schema and not _is_long(key, schema)
        }
        new |= self._convert_constants(schema)
        listed = new.get("enum") or schema.get("enum", ())
        kinds = [*dict.fromkeys(_NAMES.get(type(each)) for each in listed)]
        if "type" not in new and kinds and None not in kinds:
            new["type"] = kinds[0] if len(kinds) == 1 else kinds
        combined = self._combine(schema)
        if words := self._describe(schema, combined):
            new["description"] = words
        if isinstance(schema.get("properties"), dict):
            new |= self._convert_properties(schema)
        new |= self._convert_items(schema)
        extra = others_of(schema)
        if isinstance(extra, bool) and len(new.get("properties", ())) < self.limits.choices:
            new["additionalProperties"] = extra
        elif isinstance(extra, dict):
            new["additionalProperties"] = self.convert(extra)
        apart = []
        for part in combined.pop("allOf", ()):
            if any(new.get(key, part[key]) != part[key] for key in part.keys() - _MERGED):
                apart.append(part)
            else:
                new = merge(part, new)
        if "anyOf" in combined and "type" in new:  # Moonshot wants it in each part, and only there
            own = {"type": new.pop("type")}
            combined["anyOf"] = [own | each for each in combined["anyOf"]]
        return new | combined | ({"allOf": apart} if apart else {})

    def _convert_properties(self, schema: Schema) -> Schema:
        offered = (
            (name, each)
            for name, each in schema["properties"].items()
            if isinstance(name, str) and each is not False and not self._is_left_out(each)
        )
        properties = {
            self.rename(name): self.convert_property(name, each)
            for name, each in islice(offered, self.limits.choices)
        }
        listed = map(self.rename, schema.get("required", ()))
        names = [name for name in listed if name in properties]
        return {"properties": properties} | ({"required": names} if names else {})

    def convert_property(self, name: str, node: object) -> Schema:
        """Return a property's schema, which says its own name if it is offered under another."""
        new = self.convert(node)
        if self.rename(name) == name:
            return new
        words = [new.get("description"), f"(its name there: {excerpt(name, 100)})"]
        return new | {"description": " ".join(filter(None, words))}

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
        parts = default if isinstance(default, list) else [default]
        if isinstance(default, dict):
            parts = [*chain(*default.items())]
        if default is not None and len(parts) <= _DEFAULTS and all(map(self._is_short, parts)):
            new["default"] = default
        return new

    def _is_short(self, value: object) -> bool:
        if isinstance(value, str):
            return len(value) <= self.limits.text and value == well_formed(value)
        return value is None or isinstance(value, bool) or is_number(value)

    def _combine(self, schema: Schema) -> Schema:
        combined: Schema = {}
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            if isinstance(parts, list) and 0 < len(parts) <= self.limits.choices:
                # Several parts may match once they are cut, which `oneOf` would refuse.
                name = "anyOf" if keyword == "oneOf" else keyword
                converted = [self.convert(each) for each in parts]
                if any(converted):  # else they only require what stands beside them
                    combined[name] = converted
        return combined


def _read(schema: Schema) -> Schema:
    cleaned = clean(schema)
    if not isinstance(cleaned.get("properties"), dict):
        cleaned.pop("properties", None)
    return cleaned


def _type_of(schema: Schema) -> Schema:
    types = [each for each in _as_list(schema.get("type")) if each in _TYPES]
    if types:
        new: Schema = {"type": types[0] if isinstance(schema["type"], str) else types}
        return new | ({"items": {}} if "array" in types else {})
    return {"type": "object"} if isinstance(schema.get("properties"), dict) else {}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
