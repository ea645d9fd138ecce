"""The check of what a model gives to a server's tool, by a schema that a stranger wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.tools.arguments import DescribedArguments

MAX_SCHEMA = 100_000
"""Characters of one schema."""

_MOST_STEPS = 5_000  # nodes that a check may visit, references followed
_DEEPEST = 50
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_PATTERNS = ("pattern", "patternProperties")


class OfferedArguments:
    """Arguments as a server describes them; the model is told its schema as it is.

    A schema can make its own check take for ever: by a pattern, or by references to references.
    Of such a one only the names are checked here, and the server does the rest.
    """

    def __init__(self, schema: JsonDict) -> None:
        try:
            if len(json.dumps(schema)) > MAX_SCHEMA:
                raise ConfigError(f"its schema is longer than {MAX_SCHEMA:,} characters")
            whole = DescribedArguments(schema)
            self.schema = whole.schema
            self._check = whole if _is_quick(schema) else DescribedArguments(_names_only(schema))
        except RecursionError:
            raise ConfigError("its schema is too deep") from None

    def check(self, arguments: JsonDict) -> JsonDict:
        """The same arguments, if they fit; raises InvalidArgumentsError."""
        return self._check.check(arguments)


def _is_quick(schema: JsonDict) -> bool:
    """Whether a check visits few nodes and matches no pattern."""
    open_nodes: list[tuple[Any, int]] = [(schema, 0)]
    for _ in range(_MOST_STEPS):
        if not open_nodes:
            return True
        node, depth = open_nodes.pop()
        if depth > _DEEPEST:
            return False
        try:
            open_nodes += ((each, depth + 1) for each in _below(node, schema))
        except LookupError:
            return False
    return False


def _below(node: object, root: JsonDict) -> Iterator[Any]:
    """What is checked with a node; raises LookupError for what may take long."""
    if isinstance(node, list):
        yield from node
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in _PATTERNS and isinstance(value, str | dict) and _is_keyword(key, value):
            raise LookupError(key)
        if key in _REFERENCES and isinstance(value, str):
            yield _target(value, root)
        elif key not in ("$defs", "definitions"):
            yield value


def _is_keyword(key: str, value: object) -> bool:
    # An argument may be called "pattern"; then its schema stands there.
    return isinstance(value, str) if key == "pattern" else bool(value)


def _target(reference: str, root: JsonDict) -> Any:
    if not reference.startswith("#/"):
        raise LookupError(reference)
    found: Any = root
    for part in reference[2:].split("/"):
        if not isinstance(found, dict):
            raise LookupError(reference)
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def _names_only(schema: JsonDict) -> JsonDict:
    closed = schema.get("additionalProperties") is not True and "patternProperties" not in schema
    combined = any(key in schema for key in ("allOf", "anyOf", "oneOf", "if", *_REFERENCES))
    return {
        "type": "object",
        "properties": {name: {} for name in schema.get("properties", {})},
        "required": list(schema.get("required", [])),
        "additionalProperties": not closed or combined,
    }
