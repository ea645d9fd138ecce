"""Detection of prose, which can give a model instructions; numbers and labels hardly can.

A piece of text (a cell of a table, a name) is prose if it has five words or more, twelve characters
of a script that is written without spaces, or a word that addresses its reader ("ignore", "you")
beside two others. Labels that add up to a sentence are not detected: the rule keeps questions few.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ipyagent.kernel.describe.safe_inspect import ancestors, is_a, module_name, type_name
from ipyagent.phrases import word_set

MOST_CELLS = 200_000
"""Cells that are inspected; a larger value counts as prose."""
_DEPTH = 4
_QUICK = 8
"""Bytes, characters and items of which as many are looked at in the time of one cell."""
_START = 2_000
"""Characters of a text that are tried first: all of a long one take a while."""
_OBJECT = 8
"""Cells in the time of which one object is looked into."""
_LONG = 40
_FEW, _MANY = 3, 5  # words

_WORD = re.compile(r"[^\W\d_]{2,}")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{8,}")
_OTHER_SCRIPT = re.compile(r"[\u0370-\u1cff\u3040-\ud7ff]")
# As in "- modules: np (numpy), os"; quotes and colons, which values have, are in no such line.
_MODULES = re.compile(r"modules: \w+(?: \([\w.]+\))?(?:, \w+(?: \([\w.]+\))?)*(?:, …)?")
_PRINTABLE = re.compile(rb"[ -~]{12,}")
_ENDS = re.compile(r"[^\W\d_][.!?…](?:\s|$)")
# Cells of a table that is drawn as text; a comma of prose has a blank behind it.
_BORDERS = re.compile(r"\s{2,}|\t|\||,(?=\S)|', '|\", \"")
_ADDRESSES = word_set(
    "ignore disregard obey override forget must always never please you your instruction "
    "instructions instead execute reveal "
    "ignora ignorar obedece siempre nunca debes debe usted instrucciones sempre ignorez toujours "
    "jamais devez vous ignoriere ignorieren immer niemals musst müssen bitte anweisungen"
)
_JOINS = word_set(
    "the of to and in is are was be for with this that from by as at it on or not all any then "
    "el la los las de que en un una con por para del se al y "
    "le les des une et est dans pour qui sur avec "
    "der die das und ist ein eine mit von zu für auf nicht den dem "
    "il che di per non sono gli o os uma não do da"
)


def is_prose(piece: str) -> bool:
    """Return whether one piece of text is prose."""
    if _UNSPACED.search(piece):
        return True
    words = _WORD.findall(piece)
    if len(words) < _FEW:
        return False
    if not _ADDRESSES.isdisjoint(word.casefold() for word in words):
        return True
    spaced = len(piece.split())
    return spaced >= _FEW and (min(spaced, len(words)) >= _MANY or len(piece) > _LONG)


def name_source(paths: Sequence[str]) -> str:
    """Return the source that the prose in names of files is."""
    return f"the name of {paths[0]}" if len(paths) == 1 else "names of files"


def holds_prose(text: str, own: Iterable[str] = ()) -> bool:
    """Return whether a text that may be a drawn table holds prose beside that in `own`."""
    for own_text in sorted(own, key=len, reverse=True):
        text = text.replace(own_text, "\n")
    return any(_reads_as_prose(piece) for line in text.splitlines() for piece in _pieces(line))


def prose_in(text: str) -> frozenset[str]:
    """Return the pieces of prose in a text that may be a drawn table."""
    pieces = (piece for line in text.splitlines() for piece in _pieces(line))
    return frozenset(filter(_reads_as_prose, pieces))


def _pieces(line: str) -> Iterator[str]:
    return (piece for piece in _BORDERS.split(line) if piece)


def _reads_as_prose(piece: str) -> bool:
    """Apply the stricter rule for drawn text, in which headings of columns stand side by side."""
    if not is_prose(piece):
        return False
    words = {word.casefold() for word in _WORD.findall(piece)}
    joined = not (_JOINS | _ADDRESSES).isdisjoint(words)
    return joined or bool(_ENDS.search(piece) or _OTHER_SCRIPT.search(piece))


def value_holds_prose(value: object) -> bool:
    """Return whether a variable's value holds prose, as far as its own code need not run.

    A value that cannot be inspected, or is too large, counts as prose.
    """
    try:
        return _any_prose(value, _Budget(), _DEPTH)
    except Exception:  # a table library's own object can be broken
        return True


class _Budget:
    def __init__(self) -> None:
        self._remaining = MOST_CELLS

    def spend(self, count: int = 1) -> bool:
        """Return whether that many more cells may be inspected."""
        self._remaining -= count
        return self._remaining >= 0


_NUMBERS = (bool, int, float, complex, type(None), range)
_PLAIN = {str, *_NUMBERS}
_NUMERIC = "biufcmM"
"""Kinds of numpy's dtypes that hold no text."""
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_PLAIN_MODULES = {"datetime", "decimal", "fractions", "uuid", "zoneinfo", "pathlib"}


def _any_prose(value: Any, budget: _Budget, depth: int) -> bool:
    cls = type(value)
    if any(base in (*_NUMBERS, *_CODE) for base in ancestors(cls)):
        return False
    if is_a(value, str):
        return _texts_prose((str.__str__(value),), budget)
    if not budget.spend(_OBJECT):
        return True
    if is_a(value, bytes) or is_a(value, bytearray):
        return _bytes_prose(memoryview(value), budget)
    for kind in (list, tuple, set, frozenset):
        if is_a(value, kind):
            return depth == 0 or _items_prose(
                [kind.__iter__(value)], kind.__len__(value), budget, depth
            )
    if is_a(value, dict):
        parts: list[Iterable[object]] = [dict.keys(value), dict.values(value)]
        return depth == 0 or _items_prose(parts, 2 * dict.__len__(value), budget, depth)
    return _library_prose(value, budget, depth)


def _bytes_prose(value: memoryview, budget: _Budget) -> bool:
    """Return whether the printable stretches of bytes hold prose."""
    if not budget.spend(len(value) // _QUICK):
        return True
    return any(is_prose(each.decode("ascii")) for each in _PRINTABLE.findall(value))


def _texts_prose(texts: Collection[str], budget: _Budget) -> bool:
    """Return whether texts hold prose; what is too long counts as prose."""
    too_long = not budget.spend(len(texts) + sum(map(len, texts)) // _QUICK)
    return too_long or any(is_prose(text[:_START]) or is_prose(text) for text in texts)


def _items_prose(parts: list[Iterable[object]], count: int, budget: _Budget, depth: int) -> bool:
    """Return whether the items of a container hold prose."""
    if not budget.spend(count // _QUICK):
        return True
    return _cells_prose([item for part in parts for item in part], budget, depth)


def _some(values: Iterable[object], budget: _Budget, depth: int) -> bool:
    return any(_any_prose(each, budget, depth - 1) for each in values)


def _library_prose(value: Any, budget: _Budget, depth: int) -> bool:
    """Return whether a table or array holds prose; other objects may hold anything."""
    cls = type(value)
    root, name = module_name(cls).partition(".")[0], type_name(cls)
    library = sys.modules.get(root)
    if getattr(library, name, None) is not cls:
        return root not in _PLAIN_MODULES
    match root, name:
        case "pandas", "DataFrame":
            kinds = [getattr(dtype, "kind", "O") for dtype in value.dtypes]
            columns = [value.iloc[:, n] for n, kind in enumerate(kinds) if kind not in _NUMERIC]
            labels = [*value.columns.tolist(), *value.columns.names, *value.index.names]
            return _some(labels, budget, depth) or any(
                _column_prose(each, budget, depth) for each in (value.index, *columns)
            )
        case "pandas", "Series":
            parts = (value, value.index)
            return _some([value.name, *value.index.names], budget, depth) or any(
                _column_prose(each, budget, depth) for each in parts
            )
        case "pandas", _ if name.endswith("Index"):
            return _some(value.names, budget, depth) or _column_prose(value, budget, depth)
        case "pathlib", _:
            return is_prose(str(value))
        case "polars", "DataFrame":
            return _some(value.columns, budget, depth) or any(
                _polars_prose(each, budget, depth) for each in value.get_columns()
            )
        case "polars", "Series":
            return _some([value.name], budget, depth) or _polars_prose(value, budget, depth)
        case "numpy", "ndarray":
            if value.dtype.kind not in "OUST":
                return bool(value.dtype.kind == "V")
            return not budget.spend(value.size) or _cells_prose(
                value.ravel().tolist(), budget, depth
            )
    return root not in {"pandas", "numpy", *_PLAIN_MODULES} or name.endswith("Frame")


def _column_prose(column: Any, budget: _Budget, depth: int) -> bool:
    if getattr(column.dtype, "kind", "O") in _NUMERIC:
        return False
    if str(column.dtype) == "category":
        column = column.cat.categories if hasattr(column, "cat") else column.categories
    return not budget.spend(len(column)) or _cells_prose(column.tolist(), budget, depth)


def _cells_prose(cells: list[object], budget: _Budget, depth: int) -> bool:
    """Return whether a column's cells hold prose; repeated labels are inspected once."""
    texts = {cell for cell in cells if type(cell) is str}
    others = (cell for cell in cells if type(cell) not in _PLAIN)
    return _texts_prose(texts, budget) or _some(others, budget, depth)


def _polars_prose(column: Any, budget: _Budget, depth: int) -> bool:
    dtype = column.dtype
    if dtype.is_numeric() or dtype.is_temporal() or str(dtype) in {"Boolean", "Null"}:
        return False
    return not budget.spend(len(column)) or _cells_prose(column.to_list(), budget, depth)


def prose_of_line(line: str) -> tuple[str, frozenset[str]]:
    """Return the source of a line "- name: description" of a variable, and the prose in it.

    The documentation of functions and classes is code that the user ran, like all of their code,
    and so are the names of modules.
    """
    description = line.removeprefix("- ")
    name, colon, rest = description.partition(": ")
    if not colon:
        return "names of variables", prose_in(line)
    is_code = rest.startswith(("function(", "class ")) or _MODULES.fullmatch(description)
    return f"values of {name}", frozenset() if is_code else prose_in(rest)


def prose_sources(digest: str) -> Iterator[str]:
    """Return the sources of the prose in lines such as "- name: description"."""
    yield from (source for source, prose in map(prose_of_line, digest.splitlines()) if prose)
