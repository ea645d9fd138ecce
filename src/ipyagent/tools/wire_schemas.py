"""Schemas of arguments in the one form that every service takes.

All tools go with each request, so one schema that a service refuses would stop every request. On
the wire there is an object at the top without combinations and with names that all services take,
no references, nothing without a type, no array without items. Calls are checked by the original
schema, under its own names.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, object_of
from ipyagent.plaintext import clean_text, excerpt
from ipyagent.tools.json_schemas import CONDITIONS, Converter, Limits, clean
from ipyagent.tools.schema_references import References, Schema

MAX_SCHEMA = 100_000
"""Characters of one schema."""

_DEPTHS = (12, 8, 5, 3, 1)  # the first that takes few schemas
_MAX_SCHEMAS = 2_000
_MAX_TEXT = 10_000
_MAX_PARTS = 200
_MAX_CONDITIONS = 1_500
_LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NO_SCHEMA = "parameters is not a JSON Schema"
_TOO_LONG = "its schema has {:,} characters; at most {:,} are taken"


class WireSchema:
    """The schema of a tool's arguments for the wire; raises ConfigError for an unusable one.

    `schema` is sent, and `conditions` is said beside it. `names` and `required` are arguments at
    the original's top; `is_open` is true if it takes others as well.
    """

    def __init__(self, original: JsonDict) -> None:
        try:
            text = json.dumps(original, default=str)
            if len(text) > MAX_SCHEMA:
                raise ConfigError(_TOO_LONG.format(len(text), MAX_SCHEMA))
            self.references = References(json.loads(text, object_hook=_without_draft))
            self._convert(self.references.document)
        except (RecursionError, ValueError):  # ValueError: it holds itself
            raise ConfigError("its schema is nested too deeply") from None

    def _convert(self, document: JsonDict) -> None:
        found = self.references.follow(document)
        if not isinstance(found, dict):
            raise ConfigError("its schema is only a reference to something that is not in it")
        if not isinstance(found.get("properties") or {}, dict):
            raise ConfigError(f"{_NO_SCHEMA}: properties is {found['properties']!r:.100}")
        root = clean(found)
        if not _is_object(root):
            raise ConfigError("parameters has to be a JSON Schema of type object")
        self.is_open, self._parts = False, 0
        self._own: dict[str, list[object]] = {}
        """Properties by name, each with all schemas that it has to match."""
        self._offered: dict[str, list[object]] = {}
        """Properties of alternatives, each with the schemas of which it has to match one."""
        self._conditions: list[JsonDict] = []
        self.required = tuple(self._collect(root))
        self.names = (*dict.fromkeys([*self._own, *self._offered, *self.required]),)
        self._wire_names = _choose_names(self.names)
        self._own_names = {wire: own for own, wire in self._wire_names.items()}
        for depth in _DEPTHS:
            limits = Limits(depth, _MAX_SCHEMAS, _MAX_TEXT, choices=_MAX_SCHEMAS)
            converter = Converter(self.references, limits)
            self.schema = _add_types(self._describe(root, converter))
            size = len(json.dumps(self.schema))
            if not converter.is_exhausted and size <= MAX_SCHEMA:
                break
        if size > MAX_SCHEMA:
            raise ConfigError(_TOO_LONG.format(size, MAX_SCHEMA))
        if unknown := converter.unknown_types:
            raise ConfigError(f"{_NO_SCHEMA}: {unknown[0]!r:.100} is not a type")
        told = [each for each in map(converter.conditions, self._conditions) if each]
        words = (excerpt(json.dumps(each), _MAX_CONDITIONS) for each in told)
        self.conditions = " ".join(f"Also: {each}" for each in dict.fromkeys(words))

    def _collect(self, node: object, *, may_match: bool = False) -> dict[str, None]:
        """Collect the properties of a part of the top; return the names that it requires."""
        found = self.references.follow(node)
        self._parts += 1
        if not isinstance(found, dict) or self._parts > _MAX_PARTS:
            self.is_open = True
            return {}
        schema = clean(found)
        properties = self._offered if may_match else self._own
        for name, each in schema.get("properties", {}).items():
            properties.setdefault(name, []).append(each)
        required = dict.fromkeys(schema.get("required", ()))
        self.is_open |= schema.get("additionalProperties", False) is not False
        rest = {key: schema[key] for key in CONDITIONS if key in schema}
        alone = [*schema.get("allOf", ())]
        for keyword in ("anyOf", "oneOf"):
            parts = [each for each in schema.get(keyword, ()) if self._may_be_object(each)]
            if len(parts) == 1:
                alone += parts
                del rest[keyword]
            elif parts:
                needed = [self._collect(each, may_match=True) for each in parts]
                required |= {key: None for key in needed[0] if all(key in n for n in needed)}
        for each in alone:
            required |= self._collect(each, may_match=may_match)
        branches = [schema[key] for key in ("then", "else") if key in schema]
        for each in (*branches, *schema.get("dependentSchemas", {}).values()):
            self._collect(each, may_match=True)
        self._conditions += [] if may_match else [rest]
        return required

    def _may_be_object(self, node: object) -> bool:
        return _is_object(clean(object_of(self.references.follow(node))))

    def _describe(self, root: Schema, converter: Converter) -> Schema:
        """Return the object with all its properties."""
        properties = {}
        for own, wire in self._wire_names.items():
            node = self._join(own)
            if node is False:
                continue
            properties[wire] = new = converter.convert(node)
            if own != wire:
                words = (new.get("description"), f"(its name there: {excerpt(own, 100)})")
                new["description"] = " ".join(filter(None, words))
        required = [self._wire_names[own] for own in self.required]
        required = [name for name in required if name in properties]
        schema: Schema = {"type": "object", "properties": properties}
        schema |= {"required": required} if required else {}
        schema |= {key: root[key] for key in ("minProperties", "maxProperties") if key in root}
        if text := clean_text(root.get("description", "")):
            schema["description"] = text
        if (extra := root.get("additionalProperties")) is not None:
            extra = extra if isinstance(extra, bool) else converter.convert(extra)
            schema["additionalProperties"] = extra
        return schema

    def _join(self, name: str) -> object:
        """Return one schema for a property that several parts describe."""
        nodes = self._own.get(name) or self._offered.get(name, [])
        different = [each for n, each in enumerate(nodes) if each not in nodes[:n]]
        if False in different or len(different) == 1:
            return False not in different and different[0]
        return {"allOf" if name in self._own else "anyOf": different}

    def restore(self, arguments: object) -> Any:
        """Return a call's arguments under the schema's own names."""
        if not isinstance(arguments, dict):
            return arguments
        return {self._own_names.get(name, name): each for name, each in arguments.items()}


def _without_draft(schema: JsonDict) -> JsonDict:
    """Return the object without the name of a draft: each level is read as `clean` does."""
    if isinstance(schema.get("$schema"), str):
        del schema["$schema"]
    return schema


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
    if "anyOf" in new:
        new["anyOf"] = [*map(_add_types, new["anyOf"])]
    elif "type" not in new:
        new["type"] = "array" if "items" in new else [*types]
    if "items" in new or "array" in new.get("type", ()):
        new["items"] = _add_types(new.get("items", {}), _IN_ARRAYS)
    return new


def _choose_names(names: tuple[str, ...]) -> dict[str, str]:
    """Return names that every service takes, by the schema's own."""
    chosen = {name: name for name in names if _LEGAL.fullmatch(name)}
    for name in (each for each in names if each not in chosen):
        plain = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:56] or "_"
        candidates = (plain if n == 1 else f"{plain}_{n}" for n in count(1))
        taken = chosen.values()
        chosen[name] = next(each for each in candidates if each not in taken)
    return {name: chosen[name] for name in names}


def _is_object(schema: Schema) -> bool:
    types = schema.get("type", "object")
    return "object" in (types if isinstance(types, list) else [types])
