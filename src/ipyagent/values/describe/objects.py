"""Descriptions of everything but tables: values, containers, code, and other objects."""

from __future__ import annotations

import collections
import inspect
import io
import itertools
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from ipyagent.phrases import first_line, plural
from ipyagent.redaction import HIDDEN, Secrecy
from ipyagent.values.describe.preview import key_secrecy, preview
from ipyagent.values.describe.safe_inspect import (
    class_dict,
    module_name,
    one_line,
    own_attributes,
    slots,
    type_name,
)

T = TypeVar("T")

_ITEMS = 20  # in detail
_TEXT = 2000  # characters, in detail

_READERS = {io.BufferedReader, io.BufferedWriter, io.BufferedRandom}


def scalar(value: object, secret: Secrecy, detail: bool) -> str:
    """Describe a value that fits on a line: `int = 3`."""
    return f"{type_name(type(value))} = {preview(value, secret=secret)}"


def string(value: str, secret: Secrecy, detail: bool) -> str:
    """Describe a string: its length if it is long, and its beginning."""
    length = str.__len__(value)
    beginning = preview(value, secret=secret)
    size = f", {length:,} characters" if length > 80 else ""
    if detail and length > 80 and beginning != HIDDEN:
        return f"{type_name(type(value))}{size}\n{str.__getitem__(value, slice(0, _TEXT))}"
    return f"{type_name(type(value))}{size} = {beginning}"


def container(
    iterate: Callable[[T], Iterable[object]], size: Callable[[T], int]
) -> Callable[[T, Secrecy, bool], str]:
    """Return a describer of lists, tuples, sets or deques: length, types and first items."""

    def describe_container(value: T, secret: Secrecy, detail: bool) -> str:
        first = list(itertools.islice(iterate(value), 100))
        kinds = collections.Counter(type_name(type(item)) for item in first)
        of = f" ({', '.join(kinds)})" if 0 < len(kinds) <= 3 else ""
        line = f"{type_name(type(value))}, {plural(size(value), 'item')}{of}"
        if not detail or not first:
            return f"{line} = {preview(value, secret=secret)}"
        return _append_items(line, (preview(v, secret=secret) for v in first), size(value))

    return describe_container


def mapping(value: dict[object, object], secret: Secrecy, detail: bool) -> str:
    """Describe a dictionary: its size and first items."""
    size = dict.__len__(value)
    line = f"{type_name(type(value))}, {plural(size, 'item')}"
    if not detail or not size:
        return f"{line} = {preview(value, secret=secret)}"
    items = (
        f"{preview(k, depth=0)}: {preview(v, secret=max(secret, key_secrecy(k)))}"
        for k, v in dict.items(value)
    )
    return _append_items(line, items, size)


def _append_items(line: str, items: Iterable[str], size: int) -> str:
    lines = [f"  {item}" for item in itertools.islice(items, _ITEMS)]
    more = [f"  … {size - len(lines):,} more"] if size > len(lines) else []
    return "\n".join([line, *lines, *more])


def function(value: types.FunctionType, secret: Secrecy, detail: bool) -> str:
    """Describe a function: its parameters and the first line of its docstring."""
    head = f"function({parameters(value)})"
    return head + _doc_line(value.__doc__, detail)


def parameters(value: types.FunctionType) -> str:
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


def a_class(value: type, secret: Secrecy, detail: bool) -> str:
    """Describe a class: module, docstring and, in detail, its public names."""
    own = class_dict(value)
    line = f"class {_from(value)}" + _doc_line(own.get("__doc__"), detail)
    public = [one_line(n) for n in own if type(n) is str and not n.startswith("_")]
    return f"{line}\ndefines: {', '.join(public) or 'nothing public'}" if detail else line


def module(value: types.ModuleType, secret: Secrecy, detail: bool) -> str:
    """Describe a module: its name only, since asking a lazy one for more would load it."""
    return f"module {module_title(value)}"


def module_title(value: types.ModuleType) -> str:
    """Return the module's full name."""
    name = class_dict(types.ModuleType)["__dict__"].__get__(value).get("__name__")
    return one_line(name) if type(name) is str else "module"


def generator(value: Any, secret: Secrecy, detail: bool) -> str:
    """Describe a generator or coroutine by its name, without advancing it."""
    return f"{type_name(type(value))} {one_line(value.__name__)}, not consumed"


def open_file(value: Any, secret: Secrecy, detail: bool) -> str:
    """Describe a file object: its path if it surely is a plain file."""
    buffer = value.buffer if type(value) is io.TextIOWrapper else value
    raw = buffer.raw if type(buffer) in _READERS else buffer
    if type(raw) is not io.FileIO:
        return type_name(type(value))
    state = "closed" if raw.closed else f"open, mode {raw.mode}"
    return f"{type_name(type(value))}, {preview(raw.name)}, {state}"


def anything(value: object, secret: Secrecy, detail: bool, known: Collection[str] = ()) -> str:
    """Describe any other object: its type and attribute names, without running its code.

    Those that are `known` are described elsewhere.
    """
    if preview(value) != f"<{type_name(type(value))}>":
        return scalar(value, secret, detail)
    attributes = own_attributes(value)
    public = [n for n in (*attributes, *slots(type(value))) if type(n) is str and n[:1] != "_"]
    names = [name for name in public if name not in known]
    first, more = names[: 50 if detail else 8], len(names) - (50 if detail else 8)
    text = ", ".join(map(one_line, first)) + (f", … {more:,} more" if more > 0 else "")
    return _from(type(value)) + (f", attributes: {text}" if names else "")


def _from(cls: type) -> str:
    home = module_name(cls)
    return type_name(cls) + ("" if home in {"", "__main__", "builtins"} else f" ({home})")


BY_TYPE: list[tuple[type, Callable[[Any, Secrecy, bool], str | None]]] = [
    (str, string),
    (dict, mapping),
    (list, container(list.__iter__, list.__len__)),
    (tuple, container(tuple.__iter__, tuple.__len__)),
    (set, container(set.__iter__, set.__len__)),
    (frozenset, container(frozenset.__iter__, frozenset.__len__)),
    (collections.deque, container(collections.deque.__iter__, collections.deque.__len__)),
    (int, scalar),
    (bytes, scalar),
    (bytearray, scalar),
    (BaseException, scalar),
    (types.FunctionType, function),
    (type, a_class),
    (types.ModuleType, module),
    (types.GeneratorType, generator),
    (types.CoroutineType, generator),
    (types.AsyncGeneratorType, generator),
    (io.TextIOWrapper, open_file),
    (io.BufferedReader, open_file),
    (io.BufferedWriter, open_file),
    (io.BufferedRandom, open_file),
]
