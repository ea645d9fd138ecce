"""Descriptions of variables for the model, without running code of the user's classes.

Describing never calls `repr`, `len`, `==`, properties or any other method of a class that is not
Python's own or a table library's, never consumes an iterator and never collects a lazy table.
"""

from __future__ import annotations

import re

from ipyagent.kernel.describe.known_types import known_types
from ipyagent.kernel.describe.objects import BY_TYPE
from ipyagent.kernel.describe.safe_inspect import ancestors, one_line, type_name
from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Secrecy, secrecy

_KIND = re.compile(r"\w+(?:, (?:shape \([\d, ]*\)|[\d,]+ \w+(?: × [\d,]+ \w+)?))?")  # noqa: RUF001
"""The part of a line before names, types and values."""

BRIEF = 48
"""Characters that a list of completions has room for."""

_TABLE = re.compile(r"(\w+), ([\d,]+) rows(?: (\S) ([\d,]+) columns)?")

_BUILT_IN = {id(cls): describer for cls, describer in BY_TYPE}


def describe(name: str, value: object, *, detail: bool) -> str:
    """Describe a variable in one line, or with `detail` in as much text as helps to use it."""
    try:
        description = _describe_value(value, secrecy(name), detail)
    except Exception:
        # A table library's own object can be broken; its type is still useful.
        description = type_name(type(value))
    return strip_escapes(f"{one_line(name)}: {description}")


def kind(value: object) -> str:
    """Return the type of a value, with its size if it has one."""
    try:
        match = _KIND.match(_describe_value(value, Secrecy.NONE, False))
    except Exception:
        match = None
    return match[0] if match else type_name(type(value))


def brief(name: str, value: object) -> str:
    """Return type and size, or value, in a few characters: `int = 3`."""
    description = describe(name, value, detail=False).removeprefix(f"{one_line(name)}: ")
    table = _TABLE.match(description)
    return one_line(" ".join(filter(None, table.groups())) if table else description, BRIEF)


def _describe_value(value: object, secret: Secrecy, detail: bool) -> str:
    known = _BUILT_IN if id(type(value)) in _BUILT_IN else _BUILT_IN | known_types()
    for base in ancestors(type(value)):
        describer = known.get(id(base))
        description = describer(value, secret, detail) if describer else None
        if description is not None:
            return description
    return type_name(type(value))


__all__ = ["brief", "describe", "kind"]
