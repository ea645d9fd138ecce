"""Short previews of values: built-in ones as Python writes them, others by their type."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import itertools
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ipyagent.phrases import ellipsize
from ipyagent.redaction import HIDDEN, Secrecy, is_secret_value, secrecy
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    class_dict,
    module_name,
    one_line,
    type_name,
)

T = TypeVar("T")
Previewer = Callable[[Any, Secrecy, int, int], str]
"""Takes a value, its secrecy, the length and how deep to look."""

ITEMS = 5
"""Items of a container that are shown."""
_DEPTH = 2
_BIG = 256  # bits; past 4,300 digits Python refuses to print an integer at all

STANDARD = (
    type(None), type(...), type(NotImplemented), float, complex, range,
    decimal.Decimal, fractions.Fraction, uuid.UUID, datetime.date, datetime.timedelta,
    datetime.timezone, pathlib.PosixPath, pathlib.WindowsPath,
    pathlib.PurePosixPath, pathlib.PureWindowsPath,
)  # fmt: skip
"""Types whose values never change; taken exactly, they run only the standard library's code."""
_TRUSTED = {id(cls) for cls in (*STANDARD, zoneinfo.ZoneInfo)}
_COMPARABLE = {id(cls) for cls in (bool, int, str, bytes, *STANDARD)}
"""The identity of types whose values compare without other code."""
_TRUSTED_ELSEWHERE = {
    "pandas": {"Timestamp", "Timedelta", "NaTType", "NAType", "Interval", "Period"},
    "numpy": {
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "datetime64", "timedelta64",
    },
}  # fmt: skip


def preview(
    value: object, *, secret: Secrecy = Secrecy.NONE, limit: int = 80, depth: int = _DEPTH
) -> str:
    """Preview the value on one line of about `limit` characters; a secret one is masked."""
    cls = type(value)
    for base in ancestors(cls):
        previewer = _PREVIEWERS.get(id(base))
        if previewer is not None:
            return previewer(value, secret, limit, depth)
    if id(cls) in _TRUSTED or _library_scalar(cls):
        return one_line(str(value) if cls.__module__.startswith("numpy") else repr(value), limit)
    return f"<{type_name(cls)}>"


def is_comparable(cls: type) -> bool:
    """Return whether values of a class are compared by Python's or a library's own code."""
    return id(cls) in _COMPARABLE or _library_scalar(cls)


def _library_scalar(cls: type) -> bool:
    root = module_name(cls).partition(".")[0]
    names = _TRUSTED_ELSEWHERE.get(root)
    # The class must really be the library's own.
    return names is not None and type_name(cls) in names and _genuine(cls, root)


def _genuine(cls: type, root: str) -> bool:
    library = sys.modules.get(root)
    original = getattr(library, type_name(cls), None)
    return original is cls or (type_name(cls) in {"NaTType", "NAType"} and _is_pandas_null(cls))


def _is_pandas_null(cls: type) -> bool:
    pandas = sys.modules.get("pandas")
    return cls in (type(getattr(pandas, "NaT", None)), type(getattr(pandas, "NA", None)))


def text(value: str, *, secret: Secrecy = Secrecy.NONE, limit: int = 80) -> str:
    """Preview a string's own characters, as a table's cell shows them."""
    plain = str.__str__(value)
    hidden = secret.hides(plain) or is_secret_value(plain)
    return HIDDEN if hidden else one_line(plain, limit)


def _str(value: str, secret: Secrecy, limit: int, depth: int) -> str:
    plain = str.__str__(value)
    if secret.hides(plain) or is_secret_value(plain):
        return HIDDEN
    return one_line(repr(ellipsize(plain, limit)), 4 * limit)


def _bytes(base: type[bytes] | type[bytearray]) -> Previewer:
    def preview_bytes(value: Any, secret: Secrecy, limit: int, depth: int) -> str:
        start = bytes(base.__getitem__(value, slice(0, 10_000)))
        decoded = start.decode("latin-1")
        if secret.hides(decoded) or is_secret_value(decoded):
            return HIDDEN
        return repr(start[: limit // 2]) + ("…" if base.__len__(value) > limit // 2 else "")

    return preview_bytes


def _int(value: int, secret: Secrecy, limit: int, depth: int) -> str:
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= _BIG else f"<int of {bits:,} bits>"


def _datetime(value: datetime.datetime, secret: Secrecy, limit: int, depth: int) -> str:
    zone = class_dict(datetime.datetime)["tzinfo"].__get__(value)
    root = module_name(type(zone)).partition(".")[0]
    trusted = zone is None or root in {"datetime", "zoneinfo", "pytz", "dateutil"}
    if trusted and (type(value) is datetime.datetime or _library_scalar(type(value))):
        return str(value)
    return f"<{type_name(type(value))}>"


def _items(
    opening: str, closing: str, iterate: Callable[[T], Iterable[object]], size: Callable[[T], int]
) -> Callable[[T, Secrecy, int, int], str]:
    def preview_items(value: T, secret: Secrecy, limit: int, depth: int) -> str:
        if depth == 0 and size(value):
            return f"{opening}…{closing}"
        first = itertools.islice(iterate(value), ITEMS)
        parts = [preview(v, secret=secret, limit=limit // 2, depth=depth - 1) for v in first]
        more = ["…"] if size(value) > ITEMS else []
        return opening + ", ".join(parts + more) + closing

    return preview_items


def _dict(value: dict[object, object], secret: Secrecy, limit: int, depth: int) -> str:
    if depth == 0 and dict.__len__(value):
        return "{…}"
    parts = [
        f"{preview(k, limit=limit // 2, depth=0)}: "
        + preview(v, secret=max(secret, key_secrecy(k)), limit=limit // 2, depth=depth - 1)
        for k, v in itertools.islice(dict.items(value), ITEMS)
    ]
    return "{" + ", ".join(parts + (["…"] if dict.__len__(value) > ITEMS else [])) + "}"


def key_secrecy(key: object) -> Secrecy:
    """Return how surely a dictionary's key, or a column's label, announces a secret."""
    return secrecy(key) if type(key) is str else Secrecy.NONE


def _type_label(kind: str) -> Previewer:
    return lambda value, secret, limit, depth: f"<{kind} {one_line(value.__name__)}>"


def _class(value: type, secret: Secrecy, limit: int, depth: int) -> str:
    return f"<class {type_name(value)}>"


def _exception(value: BaseException, secret: Secrecy, limit: int, depth: int) -> str:
    args = class_dict(BaseException)["args"].__get__(value)
    arguments = ", ".join(preview(arg, limit=limit, depth=0) for arg in args)
    return f"{type_name(type(value))}({arguments})"


_PREVIEWERS: dict[int, Previewer] = {
    id(bool): lambda value, secret, limit, depth: repr(value),
    id(int): _int,
    id(str): _str,
    id(bytes): _bytes(bytes),
    id(bytearray): _bytes(bytearray),
    id(datetime.datetime): _datetime,
    id(list): _items("[", "]", list.__iter__, list.__len__),
    id(tuple): _items("(", ")", tuple.__iter__, tuple.__len__),
    id(set): _items("{", "}", set.__iter__, set.__len__),
    id(frozenset): _items("{", "}", frozenset.__iter__, frozenset.__len__),
    id(collections.deque): _items("[", "]", collections.deque.__iter__, collections.deque.__len__),
    id(dict): _dict,
    id(types.FunctionType): _type_label("function"),
    id(types.BuiltinFunctionType): _type_label("function"),
    id(builtins.type): _class,
    id(BaseException): _exception,
}
