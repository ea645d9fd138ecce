"""Check arguments by a JSON Schema of any draft and any origin, in bounded time."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.tools.json_schemas import (
    SUBSCHEMA_LISTS,
    SUBSCHEMA_MAPS,
    SUBSCHEMAS,
    References,
    Schema,
    clean,
)

_MAX_STEPS = 5_000  # references that one check may follow

_steps: ContextVar[Iterator[int]] = ContextVar("steps")


class TooSlowError(Exception):
    """Raised if a check would take too long: references to references can double at each step."""


class CheckedForm:
    """The schema by which calls are checked: the original's meaning in draft 2020-12.

    Raises ConfigError for what is no schema. References lead to `$defs`, wherever they led before.
    Of an untrusted schema no pattern is kept: matching one can take forever.
    """

    def __init__(self, original: JsonDict, *, trusted: bool) -> None:
        self._references, self._trusted = References(original), trusted
        self._names: dict[str, str] = {}
        self._pending: dict[str, Any] = {}
        definitions: dict[str, Any] = {}
        self.schema = self._build(original)
        while self._pending:  # not built where they are referred to: chains of them are long
            name, target = self._pending.popitem()
            definitions[name] = self._build(target)
        self.schema["$defs"] = definitions
        from jsonschema import SchemaError

        try:
            _validator_class().check_schema(self.schema)
        except SchemaError as error:
            where = ".".join(map(str, error.absolute_path))
            raise ConfigError(
                f"parameters is not a JSON Schema: {where}: {error.message[:200]}"
            ) from None

    def _build(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        new = clean(node)
        self._drop_patterns(new)
        for key, value in new.items():
            if key in SUBSCHEMAS:
                new[key] = self._build(value)
            elif key in SUBSCHEMA_LISTS:
                new[key] = [*map(self._build, value)]
            elif key in SUBSCHEMA_MAPS and isinstance(value, dict):
                new[key] = {name: self._build(each) for name, each in value.items()}
        if "$ref" in new:
            new |= self._refer(new.pop("$ref"))
        return new

    def _refer(self, reference: str) -> Schema:
        """Return a reference to the same target, which becomes a definition."""
        if reference not in self._names:
            target = self._references.look_up(reference)
            if target is None:
                # The user learns at the call that it leads nowhere; a server knows what it means.
                return {"$ref": reference} if self._trusted else {}
            self._names[reference] = name = f"d{len(self._names)}"
            self._pending[name] = target
        return {"$ref": f"#/$defs/{self._names[reference]}"}

    def _drop_patterns(self, schema: Schema) -> None:
        patterns = [*schema.get("patternProperties", ())]
        if not all(map(self._is_usable, patterns)):
            del schema["patternProperties"]
            schema.pop("additionalProperties", None)
        if "pattern" in schema and not self._is_usable(schema["pattern"]):
            del schema["pattern"]

    def _is_usable(self, pattern: str) -> bool:
        if not self._trusted:
            return False
        try:
            with warnings.catch_warnings(action="error"):  # it means something else elsewhere
                re.compile(pattern)
        except (re.error, RecursionError, OverflowError, Warning):
            return False
        return True


def find_problems(schema: Schema, arguments: object) -> Iterator[Any]:
    """Yield the errors that jsonschema finds; raises TooSlowError."""
    from referencing import Registry

    # An empty registry: by default a reference to elsewhere would be fetched.
    validator = _validator_class()(schema, registry=Registry())
    token = _steps.set(iter(range(_MAX_STEPS)))
    try:
        yield from validator.iter_errors(arguments)
    except RecursionError:
        raise TooSlowError from None
    finally:
        _steps.reset(token)


@cache
def _validator_class() -> Any:
    # A library that takes longer to import than all the rest of this room.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    follow = Draft202012Validator.VALIDATORS["$ref"]

    def follow_counted(*arguments: Any) -> Any:
        if next(_steps.get(), None) is None:
            raise TooSlowError
        return follow(*arguments)

    make: Any = extend  # untyped
    return make(Draft202012Validator, {"$ref": follow_counted})
