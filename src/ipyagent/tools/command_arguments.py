"""The command among a tool's arguments: find it, get it, replace it.

The path to a command is the name of an argument, or `argument.field` if the argument is an object.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipyagent.json_types import JsonDict, JsonMapping

COMMAND = "command"
"""The argument in which foreign tools take a command."""


def find_command(schema: Mapping[str, object], body_argument: str | None = None) -> str | None:
    """Return the path to the only command in a JSON Schema; None if there is none.

    `body_argument` is an argument that is sent as a whole; the command may be inside it.
    """
    properties = _properties(schema)
    if _is_text(properties.get(COMMAND)):
        return COMMAND
    if body_argument and _is_text(_properties(properties.get(body_argument)).get(COMMAND)):
        return f"{body_argument}.{COMMAND}"
    return None


def get_command(arguments: Mapping[str, object], argument_path: str) -> str | None:
    """Return the command among the arguments of a call, or None."""
    name, _, field = argument_path.partition(".")
    value = arguments.get(name)
    if field:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def replace_command(arguments: JsonMapping, argument_path: str, command: str) -> JsonDict:
    """Return the arguments with another command."""
    name, _, field = argument_path.partition(".")
    return {**arguments, name: {**arguments[name], field: command} if field else command}


def _properties(schema: object) -> JsonMapping:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _is_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"
