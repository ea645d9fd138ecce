"""Python's own values: previews on one line, and descriptions of values, containers and code.

Of a value of another class, its type and the names of its attributes are described.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import inspect
import io
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from ipyagent.plaintext import ellipsize, first_line, plural
from ipyagent.redaction import HIDDEN, Secrecy, is_secret_value, secrecy
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    class_dict,
    is_library_class,
    module_dict,
    module_name,
    one_line,
    own_attributes,
    slots,
    type_name,
)

T = TypeVar("T")
Previewer = Callable[[Any, Secrecy, int, int], str]
"""Takes a value, its secrecy, the length and how deep to look."""


class Description(NamedTuple):
    """The parts of a description; one after another they are its text."""

    kind: str
    """The type, with the size if it has one."""
    columns: str = ""
    """The columns of a table, in parentheses."""
    rest: str = ""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self)


Describer = Callable[[Any, Secrecy, bool], Description | None]
"""Takes a value, its secrecy and whether to go into detail; returns None if it cannot."""


# Previews -----------------------------------------------------------------------------------------

_PREVIEWED = 5  # items of a container
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
    if (previewer := _find_previewer(cls)) is not None:
        return previewer(value, secret, limit, depth)
    if _is_trusted(cls):
        return one_line(str(value) if cls.__module__.startswith("numpy") else repr(value), limit)
    return f"<{type_name(cls)}>"


def can_preview(cls: type) -> bool:
    """Return whether a preview shows more of a value than its type."""
    return _find_previewer(cls) is not None or _is_trusted(cls)


def _find_previewer(cls: type) -> Previewer | None:
    return next((_PREVIEWERS[id(each)] for each in ancestors(cls) if id(each) in _PREVIEWERS), None)


def _is_trusted(cls: type) -> bool:
    return id(cls) in _TRUSTED or _is_library_scalar(cls)


def is_comparable(cls: type) -> bool:
    """Return whether values of a class are compared by Python's or a library's own code."""
    return id(cls) in _COMPARABLE or _is_library_scalar(cls)


def _is_library_scalar(cls: type) -> bool:
    root = module_name(cls).partition(".")[0]
    return type_name(cls) in _TRUSTED_ELSEWHERE.get(root, ()) and is_library_class(cls, root)


def text(value: str, *, secret: Secrecy = Secrecy.NONE, limit: int = 80) -> str:
    """Preview a string's own characters, as a table's cell shows them."""
    plain = str.__str__(value)
    hidden = secret.hides(plain) or is_secret_value(plain)
    return HIDDEN if hidden else one_line(plain, limit)


def key_secrecy(key: object) -> Secrecy:
    """Return how surely a dictionary's key, or a column's label, announces a secret."""
    return secrecy(key) if type(key) is str else Secrecy.NONE


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
    if trusted and (type(value) is datetime.datetime or _is_library_scalar(type(value))):
        return str(value)
    return f"<{type_name(type(value))}>"


def _items(
    opening: str, closing: str, iterate: Callable[[T], Iterable[object]], size: Callable[[T], int]
) -> Callable[[T, Secrecy, int, int], str]:
    def preview_items(value: T, secret: Secrecy, limit: int, depth: int) -> str:
        if depth == 0 and size(value):
            return f"{opening}…{closing}"
        first = islice(iterate(value), _PREVIEWED)
        parts = [preview(v, secret=secret, limit=limit // 2, depth=depth - 1) for v in first]
        more = ["…"] if size(value) > _PREVIEWED else []
        return opening + ", ".join(parts + more) + closing

    return preview_items


def _dict(value: dict[object, object], secret: Secrecy, limit: int, depth: int) -> str:
    if depth == 0 and dict.__len__(value):
        return "{…}"
    parts = [
        f"{preview(k, limit=limit // 2, depth=0)}: "
        + preview(v, secret=max(secret, key_secrecy(k)), limit=limit // 2, depth=depth - 1)
        for k, v in islice(dict.items(value), _PREVIEWED)
    ]
    return "{" + ", ".join(parts + (["…"] if dict.__len__(value) > _PREVIEWED else [])) + "}"


def _function(value: Any, secret: Secrecy, limit: int, depth: int) -> str:
    return f"<function {one_line(value.__name__)}>"


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
    id(types.FunctionType): _function,
    id(types.BuiltinFunctionType): _function,
    id(type): lambda value, secret, limit, depth: f"<class {type_name(value)}>",
    id(BaseException): _exception,
}


# Descriptions -------------------------------------------------------------------------------------

_ITEMS = 20  # in detail
_TEXT = 2000  # characters, in detail
_READERS = {io.BufferedReader, io.BufferedWriter, io.BufferedRandom}


def _describe_scalar(value: object, secret: Secrecy, detail: bool) -> Description:
    """Describe a value that fits on a line: `int = 3`."""
    return Description(type_name(type(value)), rest=f" = {preview(value, secret=secret)}")


def _describe_string(value: str, secret: Secrecy, detail: bool) -> Description:
    """Describe a string: its length if it is long, and its beginning."""
    length, kind = str.__len__(value), type_name(type(value))
    if length <= 80:
        return _describe_scalar(value, secret, detail)
    kind, beginning = f"{kind}, {length:,} characters", preview(value, secret=secret)
    if detail and beginning != HIDDEN:
        return Description(kind, rest=f"\n{str.__getitem__(value, slice(0, _TEXT))}")
    return Description(kind, rest=f" = {beginning}")


def _container(iterate: Callable[[T], Iterable[object]], size: Callable[[T], int]) -> Describer:
    """Return a describer of lists, tuples, sets or deques: length, types and first items."""

    def describe_container(value: T, secret: Secrecy, detail: bool) -> Description:
        first = list(islice(iterate(value), 100))
        kinds = collections.Counter(type_name(type(item)) for item in first)
        of = f" ({', '.join(kinds)})" if 0 < len(kinds) <= 3 else ""
        kind = f"{type_name(type(value))}, {plural(size(value), 'item')}"
        if not detail or not first:
            return Description(kind, rest=f"{of} = {preview(value, secret=secret)}")
        items = _list_items((preview(v, secret=secret) for v in first), size(value))
        return Description(kind, rest=of + items)

    return describe_container


def _describe_dict(value: dict[object, object], secret: Secrecy, detail: bool) -> Description:
    size = dict.__len__(value)
    kind = f"{type_name(type(value))}, {plural(size, 'item')}"
    if not detail or not size:
        return Description(kind, rest=f" = {preview(value, secret=secret)}")
    items = (
        f"{preview(k, depth=0)}: {preview(v, secret=max(secret, key_secrecy(k)))}"
        for k, v in dict.items(value)
    )
    return Description(kind, rest=_list_items(items, size))


def _list_items(items: Iterable[str], size: int) -> str:
    lines = [f"\n  {item}" for item in islice(items, _ITEMS)]
    more = f"\n  … {size - len(lines):,} more" if size > len(lines) else ""
    return "".join(lines) + more


def _describe_function(value: types.FunctionType, secret: Secrecy, detail: bool) -> Description:
    """Describe a function: its parameters and the first line of its docstring."""
    return Description("function", rest=f"({_parameters(value)}){_doc_line(value.__doc__, detail)}")


def _parameters(value: types.FunctionType) -> str:
    """Return the parameters of a function, with previews of their defaults."""
    if "__signature__" in value.__dict__:
        return "…"
    stars: dict[object, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    parts = []
    for parameter in inspect.signature(value, follow_wrapped=False).parameters.values():
        default = parameter.default
        default_text = "" if default is parameter.empty else f"={preview(default, limit=30)}"
        parts.append(f"{stars.get(parameter.kind, '')}{parameter.name}{default_text}")
    return ", ".join(parts)


def _doc_line(doc: object, detail: bool) -> str:
    if type(doc) is not str or not doc.strip():
        return ""
    if detail:
        return f"\n{inspect.cleandoc(doc)[:_TEXT]}"
    return f": {one_line(first_line(doc))}"


def _describe_class(value: type, secret: Secrecy, detail: bool) -> Description:
    """Describe a class: module, docstring and, in detail, its public names."""
    own = class_dict(value)
    line = f" {type_name(value)}{_name_home(value)}{_doc_line(own.get('__doc__'), detail)}"
    public = [one_line(n) for n in own if type(n) is str and not n.startswith("_")]
    names = f"\ndefines: {', '.join(public) or 'nothing public'}" if detail else ""
    return Description("class", rest=line + names)


def _describe_module(value: types.ModuleType, secret: Secrecy, detail: bool) -> Description:
    return Description("module", rest=f" {module_title(value)}")


def module_title(value: types.ModuleType) -> str:
    """Return a module's full name, and ask no more: a lazy one would be loaded."""
    name = module_dict(value).get("__name__")
    return one_line(name) if type(name) is str else "module"


def _describe_generator(value: Any, secret: Secrecy, detail: bool) -> Description:
    """Describe a generator or coroutine by its name, without advancing it."""
    return Description(type_name(type(value)), rest=f" {one_line(value.__name__)}, not consumed")


def _describe_file(value: Any, secret: Secrecy, detail: bool) -> Description:
    """Describe a file object: its path if it surely is a plain file."""
    buffer = value.buffer if type(value) is io.TextIOWrapper else value
    raw = buffer.raw if type(buffer) in _READERS else buffer
    if type(raw) is not io.FileIO:
        return Description(type_name(type(value)))
    state = "closed" if raw.closed else f"open, mode {raw.mode}"
    return Description(type_name(type(value)), rest=f", {preview(raw.name)}, {state}")


def describe_object(
    value: object, secret: Secrecy, detail: bool, known: Collection[str] = ()
) -> Description:
    """Describe any other object: its type and attribute names, without running its code.

    The attributes that are `known` are described elsewhere.
    """
    kind = type_name(type(value))
    if can_preview(type(value)):
        return _describe_scalar(value, secret, detail)
    attributes = own_attributes(value)
    public = [n for n in (*attributes, *slots(type(value))) if type(n) is str and n[:1] != "_"]
    names = [name for name in public if name not in known]
    first, more = names[: 50 if detail else 8], len(names) - (50 if detail else 8)
    text = ", ".join(map(one_line, first)) + (f", … {more:,} more" if more > 0 else "")
    attributes_text = f", attributes: {text}" if names else ""
    return Description(kind, rest=_name_home(type(value)) + attributes_text)


def _name_home(cls: type) -> str:
    home = module_name(cls)
    return "" if home in {"", "__main__", "builtins"} else f" ({home})"


BY_TYPE: dict[type, Describer] = {
    str: _describe_string,
    dict: _describe_dict,
    list: _container(list.__iter__, list.__len__),
    tuple: _container(tuple.__iter__, tuple.__len__),
    set: _container(set.__iter__, set.__len__),
    frozenset: _container(frozenset.__iter__, frozenset.__len__),
    collections.deque: _container(collections.deque.__iter__, collections.deque.__len__),
    **dict.fromkeys((int, bytes, bytearray, BaseException), _describe_scalar),
    types.FunctionType: _describe_function,
    type: _describe_class,
    types.ModuleType: _describe_module,
    **dict.fromkeys(
        (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), _describe_generator
    ),
    **dict.fromkeys((io.TextIOWrapper, *_READERS), _describe_file),
}
