"""Descriptions of variables for the model, without running code of the user's classes.

Describing never calls `repr`, `len`, `==`, properties or any other method of a class that is not
Python's own or a table library's, never consumes an iterator and never collects a lazy table.
"""

from __future__ import annotations

import builtins
import re
import types
from collections.abc import Iterable
from itertools import islice

from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Secrecy, secrecy
from ipyagent.values.describe.libraries import Describer, find_loaded, library_types
from ipyagent.values.describe.library_objects import ROWS, Row
from ipyagent.values.describe.metadata import is_known_class
from ipyagent.values.describe.objects import BY_TYPE, anything
from ipyagent.values.describe.preview import key_secrecy
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    one_line,
    own_attributes,
    type_name,
)

_PYTHONS_OWN = {id(each) for each in (*vars(builtins).values(), *vars(types).values())}
"""The identity of types that need no look at their ancestors, and of other objects."""


def _describe_row(row: Row) -> tuple[str, str, Describer]:
    """Return a row's type with a describer that declines subclasses: they may run other code."""

    def describe_own(value: object, secret: Secrecy, detail: bool) -> str | None:
        return row.describe(value, detail) if is_known_class(type(value)) else None

    return row.module, row.name, describe_own


_METADATA = [*map(_describe_row, ROWS)]
_TABLES = [_describe_row(row) for row in ROWS if row.columns is not None]
_LAZY = [_describe_row(row) for row in ROWS if not row.in_memory]


def known_types() -> dict[int, Describer]:
    """Return the describers by the identity of the types that are loaded."""
    found: dict[int, Describer] = {}
    for cls, describer in (*library_types(), *find_loaded(_METADATA)):
        found[id(cls)] = describer
    return found


def is_table(cls: type) -> bool:
    """Return whether the class is a table library's, or the user's subclass of one."""
    if id(cls) in _PYTHONS_OWN:
        return False
    known = {id(each) for each, _ in find_loaded(_TABLES)}
    known |= {id(each) for each, _ in library_types() if type_name(each) == "DataFrame"}
    return not known.isdisjoint(map(id, ancestors(cls)))


def holds_lazy_data(values: Iterable[object]) -> bool:
    """Return whether some of the values are data that is not in memory."""
    classes = {id(type(each)): type(each) for each in values}
    foreign = [cls for cls in classes.values() if id(cls) not in _PYTHONS_OWN]
    known = {id(each) for each, _ in find_loaded(_LAZY)} if foreign else set()
    return any(not known.isdisjoint(map(id, ancestors(cls))) for cls in foreign)


_KIND = re.compile(r"\w+(?:, (?:shape \([\d, ]*\)|[\d,]+ \w+(?: × [\d,]+ \w+)?))?")  # noqa: RUF001
"""The part of a line before names, types and values."""

BRIEF = 48
"""Characters that a list of completions has room for."""

_TABLE = re.compile(r"(\w+), ([\d,]+) rows(?: (\S) ([\d,]+) columns)?")

_MEMBERS, _MEMBER = 8, 80
"""Attributes with data that are described in a line, and the characters of each."""


def describe(name: str, value: object, *, detail: bool) -> str:
    """Describe a variable in one line, or with `detail` in as much text as helps to use it."""
    # A table library's own object can be broken; its type is still useful.
    description = _try_to_describe(value, secrecy(name), detail) or type_name(type(value))
    return strip_escapes(f"{one_line(name)}: {description}")


def _try_to_describe(value: object, secret: Secrecy, detail: bool) -> str:
    """Return the description of a value, "" if that fails."""
    try:
        return _describe_value(value, secret, detail)
    except Exception:
        return ""
    except BaseException as error:
        # Libraries in Rust panic, which to Python is no error.
        if type(error).__name__ != "PanicException":
            raise
        return ""


def kind(value: object) -> str:
    """Return the type of a value, with its size if it has one."""
    match = _KIND.match(_try_to_describe(value, Secrecy.NONE, False))
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


def _describe_object(value: object, secret: Secrecy, detail: bool) -> str:
    """Describe an object by its attributes; tables and arrays among them, private ones too."""
    data = {name: each for name, each in own_attributes(value).items() if _is_data(name, each)}
    texts = [anything(value, secret, detail, data)]
    for name, each in islice(data.items(), None if detail else _MEMBERS):
        text = _describe_value(each, max(secret, key_secrecy(name)), False)
        texts.append(f"{one_line(name)}: {one_line(text, 4 * _MEMBER if detail else _MEMBER)}")
    return ("\n" if detail else "; ").join(texts)


def _is_data(name: object, value: object) -> bool:
    """Return whether an attribute is a table, an array or the like, or a dictionary of these."""
    held = [value, *islice(dict.values(value), _MEMBERS)] if type(value) is dict else [value]
    classes = [type(each) for each in held if id(type(each)) not in _PYTHONS_OWN]
    known = known_types() if classes else {}
    return type(name) is str and any(id(b) in known for cls in classes for b in ancestors(cls))


_BUILT_IN: dict[int, Describer] = {
    **{id(cls): describer for cls, describer in BY_TYPE},
    id(object): _describe_object,
}
