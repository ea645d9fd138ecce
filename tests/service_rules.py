"""The rules for tools that at least one service checks in every request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from ipyagent.schema import ToolDefinition

TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
NOT_AT_THE_TOP = {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref"}
NOWHERE = {"$ref", "$defs", "definitions", "pattern", "patternProperties", "prefixItems", "const"}
NOWHERE |= {"not", "if", "allOf", "nullable", "$schema", "$id"}


def broken_rules(definition: ToolDefinition) -> list[str]:
    """Return what services would refuse about a tool."""
    schema = definition.input_schema
    Draft202012Validator.check_schema(schema)
    found = [f"{key} at the top" for key in NOT_AT_THE_TOP & schema.keys()]
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        found.append("no object at the top")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", definition.name):
        found.append(f"the tool's name {definition.name!r}")
    top = schema.get("properties") or {}
    found += [f"the name {n!r}" for n in top if not re.fullmatch(r"[\w.-]{1,64}", n, re.A)]
    for node in nodes_of(schema):
        types = node.get("type", [])
        types = types if isinstance(types, list) else [types]
        found += [f"{key} in {node}" for key in NOWHERE & node.keys()]
        found += [f"the type {each!r}" for each in types if each not in TYPES]
        if not node.keys() & {"type", "anyOf"}:
            found.append(f"no type in {node}")
        if "array" in types and not isinstance(node.get("items"), dict):
            found.append(f"an array without items: {node}")
        names = node.get("properties", {})
        found += [f"{n!r} is required" for n in node.get("required", []) if n not in names]
        for key in ("exclusiveMinimum", "exclusiveMaximum"):
            found += [f"{key} in {node}"] if isinstance(node.get(key), bool) else []
        if node.get("default", 1) is None or node.get("enum") == []:
            found.append(f"an empty value in {node}")
    return found


def nodes_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema of the form for services, and all schemas in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    inside = [*schema.get("properties", {}).values(), schema.get("items")]
    inside += [
        schema.get("additionalProperties"),
        *schema.get("anyOf", []),
    ]
    for each in inside:
        yield from nodes_of(each)
