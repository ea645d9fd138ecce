"""Schemas of arguments in the one form that every service takes.

All tools go with each request, so one schema that a service refuses would stop every request. On
the wire there is an object at the top without combinations, no references, nothing without a type,
no array without items, and only names that all services take. Calls are checked by the original
schema, under its own names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import clean_text, excerpt
from ipyagent.tools.json_schemas import Converter, Limits, clean, others_of
from ipyagent.tools.schema_references import References, Schema, merge

MAX_SCHEMA = 100_000
"""Characters of one schema."""

_DEPTHS = (12, 8, 5, 3, 1)  # the first that takes few schemas
_MAX_SCHEMAS = 2_000
_MAX_TEXT = 10_000
_MAX_PARTS = 200
_LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_KEPT = ("minProperties", "maxProperties")
_TOO_LONG = "its schema has {:,} characters; at most {:,} are taken"
_IN_PLACE = ("allOf", "anyOf", "oneOf")


class WireSchema:
    """The schema of a tool's arguments for the wire; raises ConfigError for an unusable one.

    `schema` is sent, and `conditions` are words for what it cannot say. `names` and `required` are
    arguments at the original's top; `is_open` is true if it takes others as well.
    """

    def __init__(self, original: JsonDict) -> None:
        try:
            if (size := len(json.dumps(original, default=str))) > MAX_SCHEMA:
                raise ConfigError(_TOO_LONG.format(size, MAX_SCHEMA))
            self._convert(original)
        except (RecursionError, ValueError):  # ValueError: it holds itself
            raise ConfigError("its schema is nested too deeply") from None

    def _convert(self, original: JsonDict) -> None:
        self.references, self._names = References(original), _LegalNames(original)
        found = self.references.follow(original)
        if not isinstance(found, dict):
            raise ConfigError("its schema is only a reference to something that is not in it")
        root = clean(found)
        types = root.get("type", "object")
        if "object" not in (types if isinstance(types, list) else [types]):
            raise ConfigError("parameters has to be a JSON Schema of type object")
        kept = {key: root[key] for key in _KEPT if key in root}
        if text := clean_text(root.get("description", "")):
            kept["description"] = text
        extra = others_of(root)
        for depth in _DEPTHS:
            limits = Limits(depth, _MAX_SCHEMAS, _MAX_TEXT, choices=_MAX_SCHEMAS)
            converter = Converter(self.references, limits, self._names.to_wire)
            top = _Top(converter).add(root)
            self.schema = {"type": "object", **top.schema(), **kept}
            if extra is not None:
                others = extra if isinstance(extra, bool) else converter.convert(extra)
                self.schema["additionalProperties"] = others
            self.schema = _add_types(self.schema)
            size = len(json.dumps(self.schema))
            if not converter.is_exhausted and size <= MAX_SCHEMA:
                break
        if size > MAX_SCHEMA:
            raise ConfigError(_TOO_LONG.format(size, MAX_SCHEMA))
        self.conditions = " ".join(dict.fromkeys(top.conditions))
        self.names = (*dict.fromkeys([*top.own, *top.offered, *top.required]),)
        self.required, self.is_open = (*top.required,), top.is_open

    def restore(self, arguments: object) -> Any:
        """Return a call's arguments under the schema's own names."""
        if not self._names.own:
            return arguments
        return self._restore(arguments, self.references.document)

    def _restore(self, value: object, node: object) -> Any:
        parts = [*self._parts(node)]
        if isinstance(value, list):
            items = _any_of(part["items"] for part in parts if "items" in part)
            places = [part["prefixItems"] for part in parts if "prefixItems" in part]
            return [
                self._restore(each, _any_of([items, *(p[i] for p in places if i < len(p))]))
                for i, each in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        known: dict[str, list[object]] = {}
        for part in parts:
            for name, each in part.get("properties", {}).items():
                known.setdefault(name, []).append(each)
        key = "additionalProperties"
        others = _any_of(part[key] for part in parts if key in part)
        restored = {}
        for key, each in value.items():
            own = self._names.own.get(key, key)
            name = own if own in known else key
            restored[name] = self._restore(each, _any_of(known[name]) if name in known else others)
        return restored

    def _parts(self, node: object) -> Iterator[Schema]:
        """Yield the schemas that apply to the same value as a node, which is one of them."""
        pending = [node]
        for _ in range(_MAX_PARTS):
            if not pending:
                return
            found = self.references.follow(pending.pop())
            if isinstance(found, dict):
                schema = clean(found)
                yield schema
                pending += (each for key in _IN_PLACE for each in schema.get(key, ()))
                pending += (schema[key] for key in ("then", "else") if key in schema)
                pending += schema.get("dependentSchemas", {}).values()


_IN_ARRAYS = ("string", "number", "boolean", "object", "null")
_TYPES = (*_IN_ARRAYS, "array")


def _add_types(schema: Schema, types: tuple[str, ...] = _TYPES) -> Schema:
    """Return a schema in which each part has a type, the one it is meant for or all of `types`.

    Moonshot, Gemini and llama.cpp refuse a part without, and llama.cpp takes an empty one for an
    object.
    """
    new = {**schema}
    if "properties" in new:
        new["properties"] = {name: _add_types(each) for name, each in new["properties"].items()}
    if isinstance(others := new.get("additionalProperties"), dict):
        new["additionalProperties"] = not others or _add_types(others)
    for key in _IN_PLACE:
        if key in new:
            new[key] = [*map(_add_types, new[key])]
    if not new.keys() & {"type", *_IN_PLACE}:
        new["type"] = "array" if "items" in new else [*types]
    if "items" in new or "array" in new.get("type", ()):
        new["items"] = _add_types(new.get("items", {}), _IN_ARRAYS)
    return new


def _any_of(nodes: Iterable[object]) -> Schema:
    return {"anyOf": [*nodes]}


class _LegalNames:
    """Names that every service takes, in place of those that some refuse."""

    def __init__(self, schema: JsonDict) -> None:
        self._taken = {*_keys(schema)}
        self.own: dict[str, str] = {}
        """The schema's own names, by those on the wire."""
        self._wire: dict[str, str] = {}

    def to_wire(self, name: str) -> str:
        """Return the name on the wire: the same one in the whole schema."""
        if _LEGAL.fullmatch(name):
            return name
        if name not in self._wire:
            plain = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:56] or "_"
            candidates = (plain if n == 1 else f"{plain}_{n}" for n in count(1))
            new = next(each for each in candidates if each not in self._taken)
            self._taken.add(new)
            self._wire[name], self.own[new] = new, name
        return self._wire[name]


def _keys(value: object) -> Iterator[str]:
    """Yield the names of everything in a JSON value."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield from node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


@dataclass
class _Top:
    """The top of a schema, collected from all parts that describe the same object."""

    converter: Converter
    steps: Iterator[int] = field(default_factory=lambda: iter(range(_MAX_PARTS)))
    """Parts that may still be read."""
    own: dict[str, list[object]] = field(default_factory=dict)
    """Properties by name, each with all schemas that it has to match."""
    offered: dict[str, list[object]] = field(default_factory=dict)
    """The same for those of alternatives, of which one has to match."""
    required: dict[str, None] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    is_open: bool = False

    def add(self, node: object) -> Self:
        """Add a part that has to match."""
        schema = self.converter.resolve(node)
        if schema is None or next(self.steps, None) is None:
            self.is_open = True
            return self
        alone: set[str] = set()
        for name, each in schema.get("properties", {}).items():
            self.own.setdefault(name, []).append(each)
        self.required |= dict.fromkeys(schema.get("required", ()))
        self.is_open |= schema.get("additionalProperties", False) is not False
        self.is_open |= "patternProperties" in schema
        for each in schema.get("allOf", ()):
            self.add(each)
        for keyword in ("anyOf", "oneOf"):
            parts = [each for each in schema.get(keyword, ()) if self._may_be_object(each)]
            if len(parts) == 1:
                alone.add(keyword)
                self.add(parts[0])
            elif parts:
                tops = [self._offer(each) for each in parts]
                common = set.intersection(*({*top.required} for top in tops))
                self.required |= {name: None for name in tops[0].required if name in common}
        for keyword in ("then", "else"):
            if keyword in schema:
                self._offer(schema[keyword])
        for each in schema.get("dependentSchemas", {}).values():
            self._offer(each)
        told = {key: value for key, value in schema.items() if key not in alone}
        self.conditions += self.converter.conditions.describe(told)
        if whole := [schema["const"]] if "const" in schema else schema.get("enum"):
            self.conditions.append(f"Allowed: {excerpt(json.dumps(whole, default=str), 500)}.")
        return self

    def schema(self) -> Schema:
        """Return the object with all its properties."""
        converter = self.converter
        nodes = {**{name: [] for name in self.required}, **self.offered, **self.own}
        order = dict.fromkeys([*self.own, *self.offered, *self.required])
        properties = {
            converter.rename(name): converter.convert_property(name, self._join(name, nodes[name]))
            for name in order
            if False not in nodes[name]
        }
        names = [converter.rename(name) for name in self.required]
        required = [name for name in names if name in properties]
        return {"properties": properties} | ({"required": required} if required else {})

    def _offer(self, node: object) -> _Top:
        """Add the properties of a part that may match."""
        top = _Top(self.converter, self.steps).add(node)
        for name, nodes in (*top.own.items(), *top.offered.items()):
            self.offered.setdefault(name, []).extend(nodes)
        self.is_open |= top.is_open
        return top

    def _may_be_object(self, node: object) -> bool:
        types = (self.converter.resolve(node) or {}).get("type", "object")
        return "object" in (types if isinstance(types, list) else [types])

    def _join(self, name: str, nodes: list[object]) -> object:
        """Return one schema for a property that several parts describe."""
        different = [each for n, each in enumerate(nodes) if each not in nodes[:n]]
        if len(different) < 2 or name not in self.own:
            return different[0] if len(different) == 1 else {"anyOf": different}
        schema: Schema = {}
        for each in different:
            schema = merge(schema, self.converter.resolve(each) or {})
        return schema
