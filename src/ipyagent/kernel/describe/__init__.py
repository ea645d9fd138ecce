"""A variable in words, for the model: without running the code of the person's own classes.

Describing never calls `repr`, `len`, `==`, properties or any other method of a class that is not
Python's own or a table library's, never consumes an iterator and never collects a lazy table.
"""

from __future__ import annotations

import re

from ipyagent.kernel.describe.inert import ancestors, one_line, type_name
from ipyagent.kernel.describe.libraries import library_types
from ipyagent.kernel.describe.things import BY_TYPE
from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Secrecy, secrecy

_KIND = re.compile(r"\w+(?:, (?:shape \([\d, ]*\)|[\d,]+ \w+(?: × [\d,]+ \w+)?))?")  # noqa: RUF001
"""What a line says before the names, types and values that something holds."""

BRIEF = 48
"""How many characters a list of completions has room for."""

_TABLE = re.compile(r"(\w+), ([\d,]+) rows(?: (\S) ([\d,]+) columns)?")

_BUILT_IN = {id(cls): describer for cls, describer in BY_TYPE}


def describe(name: str, value: object, *, detail: bool) -> str:
    """The variable in one line, or with `detail` in as much text as helps to work with it."""
    try:
        said = _described(value, secrecy(name), detail)
    except Exception:
        # A table library's own object can be broken; its type is still worth telling.
        said = type_name(type(value))
    return strip_escapes(f"{one_line(name)}: {said}")


def kind(value: object) -> str:
    """What a variable is, in a few words: its type, and the size of what has one."""
    try:
        said = _KIND.match(_described(value, Secrecy.NONE, False))
    except Exception:
        said = None
    return said[0] if said else type_name(type(value))


def brief(name: str, value: object) -> str:
    """Type and size, or value, in a few characters: a table's rows and columns, `int = 3`."""
    said = describe(name, value, detail=False).removeprefix(f"{one_line(name)}: ")
    table = _TABLE.match(said)
    return one_line(" ".join(filter(None, table.groups())) if table else said, BRIEF)


def _described(value: object, secret: Secrecy, detail: bool) -> str:
    known = _BUILT_IN | {id(cls): describer for cls, describer in library_types()}
    for base in ancestors(type(value)):
        if id(base) in known and (said := known[id(base)](value, secret, detail)) is not None:
            return said
    return type_name(type(value))


__all__ = ["brief", "describe", "kind"]
