"""The content of variables as short texts, by which a replay compares them: sizes, types, digests.

    → {"18,204 rows, 2 columns", "int64, float64", digest of exact values, sums of the others}

Other machines add up numbers in another order, so floating-point numbers are digested only if all
have few digits, as those in files: the sums of others stand in the text, and are compared with a
tolerance.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from ipyagent.digests import digest_bytes, digest_text
from ipyagent.values.variables.parts import is_plain
from ipyagent.values.variables.tables import Table, is_table

MOST_CELLS = 2_000_000
"""Cells up to which values are read; of larger tables and arrays only size and types count."""
PASSING = r"""
      \b0x[0-9a-fA-F]{4,}
    | (?:/private)?/(?:tmp|var/folders|dev/shm)/[^\s'"<>:,)]+
    | [A-Za-z]:\\[^\s'"<>]*\\Temp\\[^\s'"<>:,)]+
"""
"""Addresses and temporary paths in a text, as a verbose pattern: they differ in each process."""
_PASSING = re.compile(PASSING, re.VERBOSE)
_MOST_ITEMS = 100_000
_MOST_LETTERS = 1_000
"""Letters of a text that may be a path; a long one is compared exactly."""
_DIGITS, _NOISE = 12, 0.01
"""Digits of a number that was not computed, and the part of the last one that computing may add."""
_CONTAINERS = (list, tuple, dict, set, frozenset)
_PERIOD = 1_021
"""The weights of values repeat after so many, so that an exchange of two values is seen."""


def describe_content(value: object) -> str:
    """Return size, types and digests of a value; "" for one that has no content of its own."""
    with suppress(Exception):  # a library's own object can be broken
        if is_table(value):
            return _describe_table(Table.read(value))
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(value) in (numpy.ndarray, *numpy.sctypeDict.values()):
            return _join([f"{numpy.shape(value)} {numpy.asarray(value).dtype}", *_digest(value)])
        if is_plain(value) or type(value) in _CONTAINERS:
            return f"#{digest_text(_join(_write(value)))[:16]}"
    return ""


def _describe_table(table: Table) -> str:
    columns = table.columns
    kinds = ", ".join(f"{each.name}: {each.dtype}" for each in columns)
    parts = list[str]()
    if table.height * max(1, len(columns)) <= MOST_CELLS:
        parts = [part for each in columns for part in _digest(_values_of(each.data))]
    digests = [part for part in parts if part.startswith("#")]
    numbers = [part for part in parts if not part.startswith("#")]
    digest = f"#{digest_text(_join(digests))[:16]}" if digests else ""
    size = f"{table.height:,} rows" + ("" if table.width is None else f", {table.width:,} columns")
    return _join([size, kinds, digest, *numbers])


def _values_of(data: object) -> object:
    convert = getattr(data, "to_numpy", None)
    return data if convert is None else convert()


def _digest(values: object) -> Iterator[str]:
    """Yield a digest of exact values, or the sums of floating-point numbers."""
    import numpy

    flat = numpy.asarray(values).ravel()
    if flat.size > MOST_CELLS:
        return
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    if flat.dtype.kind == "f":
        missing = ~numpy.isfinite(flat)
        there = numpy.where(missing, 0, flat).astype(float)
        kinds = (1 * missing + numpy.isposinf(flat) + 2 * numpy.isneginf(flat)).astype("i1")
        sizes, weights = numpy.abs(there), numpy.arange(flat.size) % _PERIOD + 1
        precision = min(_DIGITS, numpy.finfo(flat.dtype).precision)
        scale = 10.0 ** max(0, precision - len(str(int(sizes.max(initial=0)))))
        units = numpy.rint(there * scale)
        yield f"#{digest_bytes(kinds.tobytes())[:16]}"
        if (numpy.abs(there * scale - units) < _NOISE).all():
            yield f"#{digest_bytes((units / scale + 0.0).tobytes())[:16]}"
        else:
            yield f"{int((there < 0).sum())}"
            yield f"{float(sizes.sum())!r} {float((sizes * weights).sum())!r}"
    elif flat.dtype.kind == "O":
        yield f"#{digest_text(_join(_write(flat.tolist())))[:16]}"
    else:
        yield f"#{digest_bytes(flat.tobytes())[:16]}"


def _write(value: object) -> Iterator[str]:
    """Yield plain data as text; of other objects only the type, and no code of theirs runs."""
    waiting: list[object] = [value]
    written = 0
    while waiting and written < _MOST_ITEMS:
        each, written = waiting.pop(), written + 1
        kind = type(each)
        if kind is float:
            yield f"{each:.9g}"
        elif kind in _CONTAINERS:
            yield f"{kind.__name__} {len(each)}"  # type: ignore[arg-type]
            waiting += islice(_list_items(each), _MOST_ITEMS)
        elif isinstance(each, str) and kind is str and len(each) < _MOST_LETTERS:
            may_pass = "/" in each or "0x" in each or "\\" in each  # it is quick
            yield repr(_PASSING.sub("…", each) if may_pass else each)
        else:
            yield repr(each) if is_plain(each) else kind.__qualname__


def _list_items(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    items = list(value) if isinstance(value, Iterable) else []
    if type(value) in (list, tuple):
        return items
    return sorted(items, key=repr) if all(map(is_plain, items)) else ()


def _join(parts: Iterable[str]) -> str:
    return " · ".join(filter(None, parts))
