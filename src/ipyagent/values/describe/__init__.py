"""Descriptions of variables for the model, and secrets among them; no code of the user's runs.

Describing never calls `repr`, `len`, `==`, properties or any other method of a class that is not
Python's own or a table library's, never consumes an iterator and never collects a lazy table.
"""

from __future__ import annotations

import builtins
import csv
import io
import re
import sys
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Secrecy, secrecy
from ipyagent.redaction.secret_patterns import is_identifier
from ipyagent.values.describe.libraries import DESCRIBERS, column_labels, table_of, table_reader
from ipyagent.values.describe.library_objects import ROWS
from ipyagent.values.describe.python_values import (
    BY_TYPE,
    Describer,
    Description,
    can_preview,
    describe_object,
    key_secrecy,
)
from ipyagent.values.describe.safe_inspect import (
    ancestors,
    is_a,
    module_name,
    one_line,
    own_attributes,
    type_name,
)
from ipyagent.values.describe.table import NAMED, TIMES, Column, Table, write_cell

BRIEF = 48
"""Characters that a list of completions has room for."""
_MEMBERS, _MEMBER = 8, 80
"""Attributes with data that are described in a line, and the characters of each."""

_PYTHONS_OWN = {id(each) for each in (*vars(builtins).values(), *vars(types).values())}
"""The identity of types that need no look at their ancestors, and of other objects."""
_TABLES = [
    *((module, name) for module, name, _ in DESCRIBERS if name == "DataFrame"),
    *((row.module, row.name) for row in ROWS if row.is_table),
]
_LAZY = [(row.module, row.name) for row in ROWS if not row.in_memory]


def describe(name: str, value: object, *, detail: bool) -> str:
    """Describe a variable in one line, or with `detail` in as much text as helps to use it."""
    return label(name, _describe_safely(value, secrecy(name), detail))


def summarize(name: str, value: object) -> Description:
    """Return the parts of a variable's line."""
    return _describe_safely(value, secrecy(name), False)


def label(name: str, description: Description) -> str:
    """Return a description behind the name of the variable."""
    return strip_escapes(f"{one_line(name)}: {description.text}")


def kind(value: object) -> str:
    """Return the type of a value, with its size if it has one."""
    return summarize("", value).kind


def brief(name: str, value: object) -> str:
    """Return type and size, or value, in a few characters: `int = 3`."""
    with suppress(Exception):
        if (table := table_of(value)) is not None:
            width = "" if table.is_series else f" {TIMES} {table.width:,}"
            return f"{table.kind} {table.rows:,}{width}"
    return one_line(strip_escapes(summarize(name, value).text), BRIEF)


def is_table(cls: type) -> bool:
    """Return whether the class is a table library's, or the user's subclass of one."""
    return _is_any_of(cls, _TABLES)


def holds_lazy_data(values: Iterable[object]) -> bool:
    """Return whether some of the values are data that is not in memory."""
    classes = {id(type(each)): type(each) for each in values}
    return any(_is_any_of(cls, _LAZY) for cls in classes.values())


def _is_any_of(cls: type, known: Iterable[tuple[str, str]]) -> bool:
    """Return whether the class has one of the types, given by module and name, as an ancestor."""
    if id(cls) in _PYTHONS_OWN:
        return False
    loaded = {id(each) for _, each in _list_loaded(known)}
    return not loaded.isdisjoint(map(id, ancestors(cls)))


def _list_loaded(known: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], type]]:
    """Return those of the types, given by module and name, whose library is imported."""
    found = []
    for each in known:
        if (module := sys.modules.get(each[0])) is not None:
            cls = getattr(module, each[1], None)
            if issubclass(type(cls), type):  # the user may put anything there
                found.append((each, cast(type, cls)))
    return found


def _describe_safely(value: object, secret: Secrecy, detail: bool) -> Description:
    """Return the description of a value; of a table library's object that is broken, its type."""
    try:
        return _describe_value(value, secret, detail)
    except Exception:
        return Description(type_name(type(value)))
    except BaseException as error:
        # Libraries in Rust panic, which to Python is no error.
        if type(error).__name__ != "PanicException":
            raise
        return Description(type_name(type(value)))


def _describe_value(value: object, secret: Secrecy, detail: bool) -> Description:
    known = _BUILT_IN if id(type(value)) in _BUILT_IN else _known_types()
    for base in ancestors(type(value)):
        describer = known.get(id(base))
        description = describer(value, secret, detail) if describer else None
        if description is not None:
            return description
    return Description(type_name(type(value)))


def _known_types() -> dict[int, Describer]:
    """Return the describers by the identity of the types that are loaded."""
    return _BUILT_IN | {id(cls): _OF_LIBRARIES[each] for each, cls in _list_loaded(_OF_LIBRARIES)}


def _describe_object(value: object, secret: Secrecy, detail: bool) -> Description:
    """Describe an object by its attributes; tables and arrays among them, private ones too."""
    data = {name: each for name, each in own_attributes(value).items() if _is_data(name, each)}
    kind, _, rest = describe_object(value, secret, detail, data)
    for name, each in islice(data.items(), None if detail else _MEMBERS):
        text = _describe_value(each, max(secret, key_secrecy(name)), False).text
        text = one_line(text, 4 * _MEMBER if detail else _MEMBER)
        rest += ("\n" if detail else "; ") + f"{one_line(name)}: {text}"
    return Description(kind, rest=rest)


def _is_data(name: object, value: object) -> bool:
    """Return whether an attribute is a table, an array or the like, or a dictionary of these."""
    held = [value, *islice(dict.values(value), _MEMBERS)] if type(value) is dict else [value]
    classes = [type(each) for each in held if id(type(each)) not in _PYTHONS_OWN]
    loaded = _list_loaded(_OF_LIBRARIES) if classes else ()
    known = {id(cls) for _, cls in loaded} - _BUILT_IN.keys()
    return type(name) is str and any(id(b) in known for cls in classes for b in ancestors(cls))


_BUILT_IN: dict[int, Describer] = {
    **{id(cls): describer for cls, describer in BY_TYPE.items()},
    id(object): _describe_object,
}
_OF_LIBRARIES: dict[tuple[str, str], Describer] = {
    **{(module, name): describer for module, name, describer in DESCRIBERS},
    **{(row.module, row.name): row.describe for row in ROWS},
}


# The tables that a prompt is about ----------------------------------------------------------------

_MOST_NAMED, _MOST_MEANT = 3, 2
"""Tables that are described: by their names, else by the names of their columns."""
_MOST_TEXT = 20_000
_SHORTEST = 3
"""Letters of a column's name; shorter ones are words of any prompt."""
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def describe_named_tables(
    prompt: str, variables: Mapping[str, object], limit: int, *, or_only: bool
) -> dict[str, str]:
    """Describe the tables that a prompt names, or else the columns of, in `limit` bytes each.

    If it names none, the only one may be meant.
    """
    words = _split(prompt[:_MOST_TEXT])
    tables = {name: value for name, value in variables.items() if is_table(type(value))}
    named = [name for name in variables if len(name) > 1 and _mentions(words, name)]
    chosen = [name for name in named if name in tables or table_of(variables[name])][:_MOST_NAMED]
    if not chosen:
        counts = {name: _count_columns(words, value) for name, value in tables.items()}
        most = max(counts.values(), default=0)
        meant = [name for name, count in counts.items() if count == most > 0]
        chosen = meant[-_MOST_MEANT:] or ([*tables] if or_only and len(tables) == 1 else [])
    return {name: _describe_in(limit, name, variables[name]) for name in chosen}


def _split(text: str) -> str:
    """Return the words of a text in small letters, with blanks around each."""
    return f" {_BETWEEN.sub(' ', text).casefold().strip()} "


def _mentions(words: str, name: str) -> bool:
    """Return whether a text has the words of a name, also in the plural or the singular."""
    form = _split(name).strip()
    forms = filter(None, (form, f"{form}s", form.removesuffix("s")))
    # Not all scripts have blanks between words.
    return any(map(words.__contains__, [f" {each} " if each.isascii() else each for each in forms]))


def _count_columns(words: str, table: object) -> int:
    labels: Sequence[object] = ()
    with suppress(Exception):
        labels = column_labels(table)
    texts = (each for each in labels if type(each) is str and len(each.strip()) >= _SHORTEST)
    return sum(_mentions(words, each) for each in texts)


def _describe_in(limit: int, name: str, value: object) -> str:
    with suppress(Exception):
        if (table := table_of(value)) is not None:
            return label(name, Description(replace(table, secret=secrecy(name)).detail(limit)))
    return describe(name, value, detail=True).encode()[:limit].decode(errors="ignore")


# The last value of code ---------------------------------------------------------------------------
#
# The user sees what Jupyter draws. A table's text is wrapped, repeats its index, and tells neither
# types nor missing values.

FULL_ROWS = 60
"""Rows of a table that are given in full; of a longer one the first and last ones are."""
LONG = 4_000
"""Characters of a container's or an array's text above which it is summarised."""

_ENDS = 5
_CELL = 200  # characters
_COUNTED = 1_000_000  # cells up to which missing values are counted
_SCALAR = re.compile(
    r"(?<!['\"])\bnp\.(?:u?int|float|bool|str|bytes)_?\d*\(((?:[^()'\"]|'[^']*')*)\)"
)


def compact_value(value: object, plain: str) -> str | None:
    """Return a value in a form for the model; None if its plain text is right as it is."""
    table = table_of(value)
    if table is not None:
        return _format_table(table)
    if len(plain) > LONG and _is_container(value):
        text = strip_escapes(_describe_safely(value, Secrecy.NONE, True).text)
        return f"{text}\n[too long to print ({len(plain):,} characters): print a part]"
    short = _SCALAR.sub(r"\1", plain) if "np." in plain else plain
    return short if short != plain else None


def _is_container(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return type(value) in (dict, list, tuple, set, frozenset) or (
        numpy is not None and type(value) is getattr(numpy, "ndarray", None)
    )


def _format_table(table: Table) -> str | None:
    """Return the table as CSV below its facts; None if it holds objects of unknown classes."""
    columns = [*table.index, *table.columns[:NAMED]]
    whole = table.rows <= FULL_ROWS
    parts = [slice(None)] if whole else [slice(_ENDS), slice(table.rows - _ENDS, table.rows)]
    blocks = [
        [[_cell(v, column) for v in column.values(part)] for column in columns] for part in parts
    ]
    if any(cell is None for block in blocks for cells in block for cell in cells):
        return None
    rows = [_write(zip(*block, strict=True)) for block in blocks]
    header = _write([[_header(column) for column in columns]])
    return "\n".join([_facts(table), header, "\n…\n".join(rows)]).rstrip("\n")


def _facts(table: Table) -> str:
    kinds = {column.dtype for column in table.columns}
    same = len(kinds) == 1 < table.width
    facts = [f"{table.size}, all {kinds.pop()}{table.suffix}" if same else table.line()]
    if table.index:
        named = (_header(column) or "no name" for column in table.index)
        facts.append(f"index: {', '.join(named)}")
    facts += table.name_levels()
    if table.rows > FULL_ROWS:
        facts.append(f"first and last {_ENDS} rows")
    if table.width > NAMED:
        facts.append(f"first {NAMED} columns")
    return "; ".join([*facts, *_nulls(table)])


def _header(column: Column) -> str:
    return "" if column.label is None else column.name


def _nulls(table: Table) -> list[str]:
    """Return the columns with missing values, unless there are too many cells to count."""
    if table.rows * table.width > _COUNTED:
        return []
    counts = ((column.name, column.nulls()) for column in table.columns[:NAMED] if column.nulls)
    some = ", ".join(f"{name} {count:,}" for name, count in counts if count)
    return [f"nulls: {some}"] if some else []


def _cell(value: object, column: Column) -> str | None:
    """Return a cell's text; None for an object whose text only its own code could tell."""
    if type(value) is not str and not can_preview(type(value)):
        return None
    return write_cell(column, value, key_secrecy(column.label), _CELL)


def _write(rows: Iterable[Sequence[str | None]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().rstrip("\n")


# Secrets ------------------------------------------------------------------------------------------
#
# Strings with a secret's name are redacted everywhere. They are taken from built-in containers,
# plain objects and tables.

MOST_SECRETS = 200
"""Strings that are taken, and cells of one column that are inspected at each end."""
_INSPECTED = 200
"""Items of a container that are inspected."""
_MOST_VISITS = 5_000
_DEPTH = 4
_SHORTEST_SURE, _SHORTEST_MAYBE = 8, 12
"""Characters; for ambiguous names, shorter values are too often ordinary words."""
_OFTEN = 4
_ORDINARY = re.compile(r"[+-]?[\d.,_:/ -]+|true|false|enabled|disabled|required", re.IGNORECASE)

_WORDLESS = {bool, int, float, complex, bytes, type(None), types.ModuleType}
"""Types without items and columns."""

_Visit = tuple[Secrecy, object, int]


def secret_strings(variables: Mapping[str, object]) -> frozenset[str]:
    """Return strings that variables, keys, attributes and columns name as secret; only so many."""
    return frozenset(islice(_walk(variables), MOST_SECRETS))


def _walk(variables: Mapping[str, object]) -> Iterator[str]:
    waiting = deque[_Visit](_list_members(Secrecy.NONE, variables.items(), _DEPTH))
    seen: set[int] = set()
    kinds: dict[int, tuple[bool, bool]] = {}
    for _ in range(_MOST_VISITS):
        if not waiting:
            return
        secret, value, depth = waiting.popleft()
        if type(value) is str:
            if _is_secret(secret, value):
                yield value
        elif id(value) not in seen:
            seen.add(id(value))
            if (kind := id(type(value))) not in kinds:
                kinds[kind] = table_reader(value) is not None, _has_members(value)
            is_table, has_members = kinds[kind]
            if is_table:
                yield from _of_table(secret, value)
            if has_members and depth:
                waiting += _list_items(secret, value, depth)


def _list_items(secret: Secrecy, value: Any, depth: int) -> Iterator[_Visit]:
    """Yield the items of a built-in container or a plain object that may be or hold secrets."""
    if type(value) in (list, tuple, set, frozenset):
        for each in islice(value, _INSPECTED):
            if type(each) not in _WORDLESS and (secret or type(each) is not str):
                yield secret, each, depth - 1
        return
    members: Mapping[Any, object] = value if type(value) is dict else own_attributes(value)
    yield from _list_members(secret, islice(members.items(), _INSPECTED), depth - 1)


def _list_members(
    secret: Secrecy, members: Iterable[tuple[object, object]], depth: int
) -> Iterator[_Visit]:
    """Yield what has a name and may be or hold a secret."""
    for key, each in members:
        if type(each) not in _WORDLESS:
            found = max(secret, key_secrecy(key))
            if found or type(each) is not str:
                yield found, each, depth


def _has_members(value: object) -> bool:
    """Return whether objects of its class are inspected: no classes, modules and agents are.

    An agent holds its whole conversation, redacted; in records of runs, values may be the user's.
    """
    name = module_name(type(value))
    is_own = name.startswith("ipyagent.") and not name.startswith("ipyagent.schema.")
    return not (is_own or is_a(value, type) or is_a(value, types.ModuleType))


def _of_table(secret: Secrecy, value: object) -> Iterator[str]:
    if not secret and not any(map(key_secrecy, column_labels(value))):
        return
    table = table_of(value)
    for column in table.columns if table else ():
        if of_column := max(secret, key_secrecy(column.label)):
            yield from _of_column(of_column, column)


def _of_column(secret: Secrecy, column: Column) -> Iterator[str]:
    values = column.values(slice(MOST_SECRETS))
    if len(values) == MOST_SECRETS:
        values = [*values, *column.values(slice(-MOST_SECRETS, None))]
    counts = Counter(value for value in values if type(value) is str)
    for text, count in counts.items():
        # Words that are repeated are categories: the strength of a password, a method.
        if _is_secret(secret, text) and not (count >= _OFTEN and is_identifier(text)):
            yield text


def _is_secret(secret: Secrecy, text: str) -> bool:
    shortest = _SHORTEST_SURE if secret is Secrecy.SURE else _SHORTEST_MAYBE
    return len(text) >= shortest and secret.hides(text) and not _ORDINARY.fullmatch(text)
