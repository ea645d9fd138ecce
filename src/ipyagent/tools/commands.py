"""Commands among the arguments of a tool: where one is, and the same arguments with another.

A way to a command is the name of an argument, or `argument.field` where the argument is an object.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipyagent.json_types import JsonDict, JsonMapping

COMMAND = "command"
"""The name under which tools of others take a command."""


def command_in(schema: Mapping[str, object], body: str | None = None) -> str | None:
    """Return the way to the one command that a JSON Schema has; None where it has none.

    `body` is an argument that is sent as a whole, in which the command may be as well.
    """
    properties = _properties(schema)
    if _is_text(properties.get(COMMAND)):
        return COMMAND
    if body and _is_text(_properties(properties.get(body)).get(COMMAND)):
        return f"{body}.{COMMAND}"
    return None


def read_command(arguments: Mapping[str, object], way: str) -> str | None:
    """Return the command among the arguments of a call; None where they have none."""
    name, _, field = way.partition(".")
    value = arguments.get(name)
    if field:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def replace_command(arguments: JsonMapping, way: str, command: str) -> JsonDict:
    """Return the same arguments with another command."""
    name, _, field = way.partition(".")
    return {**arguments, name: {**arguments[name], field: command} if field else command}


def _properties(schema: object) -> JsonMapping:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _is_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"
