"""Validate a model's arguments by the untrusted schema of a server's tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.tools.argument_schema import JsonArgumentSchema

MAX_SCHEMA = 100_000
"""Characters of one schema."""

_MAX_STEPS = 5_000  # nodes that validation may visit, references followed
_MAX_DEPTH = 50
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_PATTERNS = ("pattern", "patternProperties")


class ServerToolSchema:
    """The schema of a server's tool; the model gets it unchanged.

    A pattern, or references to references, can make validation take forever. With such a schema
    only the names are checked here; the server checks the rest.
    """

    def __init__(self, schema: JsonDict) -> None:
        try:
            if len(json.dumps(schema)) > MAX_SCHEMA:
                raise ConfigError(f"its schema is longer than {MAX_SCHEMA:,} characters")
            full = JsonArgumentSchema(schema)
            self.schema = full.schema
            self._validator = full if _is_quick(schema) else JsonArgumentSchema(_names_only(schema))
        except RecursionError:
            raise ConfigError("its schema is nested too deeply") from None

    def validate(self, arguments: JsonDict) -> JsonDict:
        """Return the arguments if they match; raises InvalidArgumentsError."""
        return self._validator.validate(arguments)


def _is_quick(schema: JsonDict) -> bool:
    """Return whether validation visits few nodes and matches no pattern."""
    pending: list[tuple[Any, int]] = [(schema, 0)]
    for _ in range(_MAX_STEPS):
        if not pending:
            return True
        node, depth = pending.pop()
        if depth > _MAX_DEPTH:
            return False
        try:
            pending += ((each, depth + 1) for each in _subschemas(node, schema))
        except LookupError:
            return False
    return False


def _subschemas(node: object, root: JsonDict) -> Iterator[Any]:
    """Yield the nodes that are checked with a node; raises LookupError if that may take long."""
    if isinstance(node, list):
        yield from node
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in _PATTERNS and isinstance(value, str | dict) and _is_keyword(key, value):
            raise LookupError(key)
        if key in _REFERENCES and isinstance(value, str):
            yield _resolve_reference(value, root)
        elif key not in ("$defs", "definitions"):
            yield value


def _is_keyword(key: str, value: object) -> bool:
    # An argument may be named "pattern"; then the value is its schema.
    return isinstance(value, str) if key == "pattern" else bool(value)


def _resolve_reference(reference: str, root: JsonDict) -> Any:
    if not reference.startswith("#/"):
        raise LookupError(reference)
    node: Any = root
    for part in reference[2:].split("/"):
        if not isinstance(node, dict):
            raise LookupError(reference)
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def _names_only(schema: JsonDict) -> JsonDict:
    closed = schema.get("additionalProperties") is not True and "patternProperties" not in schema
    combined = any(key in schema for key in ("allOf", "anyOf", "oneOf", "if", *_REFERENCES))
    return {
        "type": "object",
        "properties": {name: {} for name in schema.get("properties", {})},
        "required": list(schema.get("required", [])),
        "additionalProperties": not closed or combined,
    }
