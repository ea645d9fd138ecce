"""Values whose comparison runs only Python's own code."""

from __future__ import annotations

import datetime
import decimal
import fractions
import pathlib
import re
import types
import uuid
from typing import Any

from ipyagent.kernel.describe.metadata import is_library_class
from ipyagent.kernel.describe.safe_inspect import ancestors, type_name

_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
PLAIN = frozenset(map(id, _NUMBERS))
"""The ids of the types of plain values: the hash of a type can be code of the user's."""

_KEYS = PLAIN | {
    id(cls)
    for cls in (
        decimal.Decimal, fractions.Fraction, uuid.UUID,
        datetime.date, datetime.datetime, datetime.timedelta, datetime.timezone,
        pathlib.PosixPath, pathlib.WindowsPath,
    )
}  # fmt: skip
_ATOMS = _KEYS | {
    id(cls)
    for cls in (
        frozenset, range, slice, type(...), type(NotImplemented), datetime.time, re.Pattern,
        pathlib.PurePosixPath, pathlib.PureWindowsPath,
        types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    )
}  # fmt: skip
"""Types whose objects hold nothing that can be changed, or nothing that a snapshot follows."""

_LIBRARY_ATOMS = {
    "numpy": {"generic", "dtype"},
    "pandas": {
        "Index", "BaseOffset", "ExtensionDtype", "Timestamp", "Timedelta", "NaTType", "NAType",
    },
    "polars": {"LazyFrame", "Expr", "DataType"},
    "pyarrow": {"_Weakrefable", "_PandasConvertible"},
}  # fmt: skip


def is_plain(value: object) -> bool:
    """Return whether the value is exactly a number, text, bytes or None."""
    return id(type(value)) in PLAIN


def is_atom(value: object) -> bool:
    """Return whether nothing inside of the value can change, so a reference is a snapshot."""
    cls = type(value)
    if id(cls) in _ATOMS:
        return True
    names = {type_name(base) for base in ancestors(cls)[:-1]}
    return any(base is type for base in ancestors(cls)) or any(
        not names.isdisjoint(atoms) and is_library_class(cls, library)
        for library, atoms in _LIBRARY_ATOMS.items()
    )


def are_plain_keys(values: Any, depth: int = 3) -> bool:
    """Return whether all are plain, or tuples of such: hashing and comparing run no other code."""
    others = set(map(id, map(type, values))) - _KEYS
    if others - {id(tuple)}:
        return all(id(type(each)) in _KEYS or _is_scalar(each) for each in values)
    return not others or (
        depth > 0 and all(are_plain_keys(v, depth - 1) for v in values if type(v) is tuple)
    )


def _is_scalar(value: object) -> bool:
    return is_library_class(type(value), "numpy", "pandas") and is_atom(value)


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values are one object, or plain and equal; NaN equals NaN."""
    if one is other:
        return True
    if type(one) is not type(other) or not is_plain(one):
        return False
    return bool(one == other or (one != one and other != other))
