"""A variable in words, for the model: without running the code of the person's own classes.

Describing never calls `repr`, `len`, `==`, properties or any other method of a class that is not
Python's own or a table library's, never consumes an iterator and never collects a lazy table.
"""

from __future__ import annotations

from typing import Any

from ipyagent.kernel.describe.inert import ancestors, one_line, type_name
from ipyagent.kernel.describe.libraries import library_types
from ipyagent.kernel.describe.things import BY_TYPE
from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Secrecy, secrecy

_BUILT_IN = {id(cls): describer for cls, describer in BY_TYPE}


def describe(name: str, value: object, *, detail: bool) -> str:
    """The variable in one line, or with `detail` in as much text as helps to work with it."""
    try:
        said = _described(value, secrecy(name), detail)
    except Exception:
        # A table library's own object can be broken; its type is still worth telling.
        said = type_name(type(value))
    return strip_escapes(f"{one_line(name)}: {said}")


def _described(value: Any, secret: Secrecy, detail: bool) -> str:
    known = _BUILT_IN | {id(cls): describer for cls, describer in library_types()}
    for base in ancestors(type(value)):
        if id(base) in known and (said := known[id(base)](value, secret, detail)) is not None:
            return said
    return type_name(type(value))


__all__ = ["describe"]
