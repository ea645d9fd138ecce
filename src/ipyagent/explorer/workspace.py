"""The known workspace: its tables, its other variables, its files; and the steps from it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, Literal

from ipyagent.explorer.text import fresh, split_name

Library = Literal["pandas", "polars"]

TIMES = "\N{MULTIPLICATION SIGN}"
TABLE_ENDINGS = (
    *(".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip"),
    *(".parquet", ".xlsx", ".json", ".jsonl"),
)

Kind = Literal["number", "date", "text", "bool", "other"]
_KINDS: dict[Kind, str] = {
    "bool": "bool", "date": r"datetime|date\b", "number": r"u?int\d*|float\d*|decimal",
    "text": "str|string|object|category|utf8|categorical|enum",
}  # fmt: skip
_VARIABLE = re.compile(r"(?:- )?(?P<name>[^\W\d]\w*): (?P<rest>\S.*)")
_FRAME = re.compile(
    rf"DataFrame, [\d,]+ rows? [x{TIMES}] (?P<width>[\d,]+) columns?(?P<rest>.*)", re.DOTALL
)
_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NAME = rf"""{_QUOTED} | [^,:'"()\[\]=]+"""
_COLUMN = re.compile(
    rf"(?P<name>{_NAME}): [ ] (?P<dtype>.+?) (?: , [ ] (?=(?:{_NAME}):[ ]) | \Z)", re.VERBOSE
)
_MODULE = re.compile(r"(?P<name>\w+)(?: \((?P<module>[\w.]+)\))?")
_SIZE = re.compile(r"(?: \([^()]*\)|\s{2,}.*|\t.*)$")
_READING = re.compile(
    r"read with: (?P<code>.+)|in doubt: (?P<doubt>.+?): (?P<one>pd\..+) or (?P<other>pd\..+)"
)
_DOUBTED = re.compile(rf".+ in (?P<names>{_QUOTED}(?:, {_QUOTED})*)")
_LITERAL = (ast.Constant, ast.Dict, ast.List, ast.Name, ast.Load, ast.Call)
SHEET = re.compile(r"sheet_name=(['\"])(.+?)\1[,)]")
_SAME = re.compile(r"same columns as (?P<name>\w+)")


@cache
def _kind(dtype: str) -> Kind:
    kinds = (kind for kind, names in _KINDS.items() if re.match(names, dtype, re.IGNORECASE))
    return next(kinds, "other")


@dataclass(frozen=True, eq=False)
class Table:
    """A table in a variable, or in the file at `path` that is not loaded yet.

    `columns` (name to dtype) is None until all of them are known. `values` are those known of its
    text columns; `looked_up` are the words for which all columns were searched. `keys` are columns
    that differ in each row, as far as known.
    """

    name: str
    library: Library = "pandas"
    columns: dict[str, str] | None = None
    values: tuple[tuple[str, str], ...] = ()
    keys: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()  # text that holds dates
    path: str = ""
    looked_up: frozenset[str] = frozenset()
    opaque: bool = False  # inspecting it did not tell its columns

    def dtype(self, column: str) -> str:
        """Return the name of a column's type."""
        return (self.columns or {}).get(column, "unknown")

    def kind(self, column: str) -> Kind:
        """Return the kind of a column, judged by its dtype."""
        return _kind(self.dtype(column))

    def of_kind(self, kind: str) -> list[str]:
        """Return the columns of one kind, in order."""
        return [column for column in self.columns or {} if self.kind(column) == kind]

    @property
    def date_columns(self) -> list[str]:
        """The columns of dates, as such or as text."""
        known = [c for c in self.columns or {} if c in self.dates or self.kind(c) == "date"]
        says_date = {"date", "datetime", "timestamp", "day", "time"}
        texts = [] if self.library == "polars" else self.of_kind("text")
        return known or [each for each in texts if says_date & set(split_name(each))]

    def values_of(self, column: str) -> list[str]:
        """Return the known values of a column, in order."""
        return [value for name, value in self.values if name == column]


@dataclass(frozen=True)
class FileReading:
    """The reading of a described file: code, "" if it needs no options; in doubt two, and why.

    `columns` are those that the doubt touches, if it leaves the others as they are.
    """

    code: str = ""
    doubt: str = ""
    choices: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Workspace:
    """Known tables and other variables by name, files by path, with the readings of some.

    `modules` are those that variables stand for; `is_cut`: there are variables that are not listed.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    modules: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False
    files: tuple[str, ...] = ()
    loaded: dict[str, str] = field(default_factory=dict)  # path to variable, in this very run
    readings: dict[str, FileReading] = field(default_factory=dict)
    profiles: dict[str, Table] = field(default_factory=dict)  # by path

    def with_table(self, table: Table, path: str = "") -> Workspace:
        """Return the workspace with this table added, which was loaded from a file just now."""
        tables = {**self.tables, table.name: _with_profile(table, self.profiles)}
        loaded = {**self.loaded, **({path: table.name} if path else {})}
        names = self.variables | {table.name}
        return replace(self, tables=tables, variables=names, loaded=loaded)

    @cached_property
    def in_files(self) -> dict[str, Table]:
        """The tables in files that are not loaded, by path, with the names that they would get."""
        found = {}
        for path in self.table_files:
            reading = self.readings.get(path, FileReading())
            in_doubt = reading.doubt and not reading.columns
            known = None if in_doubt else self.profiles.get(path)
            name = fresh(PurePosixPath(path).stem, self.variables)
            found[path] = replace(known or Table("", path=path), name=name)
        return found

    @property
    def table_files(self) -> list[str]:
        """The files that can be loaded as tables."""
        return [path for path in self.files if is_table_file(path)]


def is_table_file(path: str) -> bool:
    """Return whether a file of this name can be loaded as a table."""
    return path.lower().endswith(TABLE_ENDINGS)


def of_context(context: str, *earlier: str) -> Workspace:
    """Return the workspace in a context block; earlier ones may describe its files too."""
    sections = _sections(context)
    workspace = with_variables(Workspace(), sections.get("Variables", ""))
    workspace = with_files(workspace, sections.get("Files", ""))
    described = [sections.get("Tables", ""), *(_sections(c).get("Tables", "") for c in earlier)]
    readings: dict[str, FileReading] = {}
    profiles: dict[str, Table] = {}
    named = {name: path for path in workspace.files for name in (path, repr(path))}
    # The description of one file has blank lines of its own.
    for block in re.split(r"\n\n(?!column |first )", "\n\n".join(described)):
        if path := named.get(block.partition(": ")[0]):
            readings.setdefault(path, _reading(path, block.partition("\n")[2].partition("\n")[0]))
            if (profile := _profile(path, block)) is not None:
                profiles.setdefault(path, profile)
    tables = {name: _with_profile(each, profiles) for name, each in workspace.tables.items()}
    return replace(workspace, readings=readings, profiles=profiles, tables=tables)


_PROFILE_TYPES = {
    "text": "str", "datetime": "str", "date": "str", "int": "int64", "float": "float64",
    "number": "float64",
}  # fmt: skip
_ROWS = re.compile(rf"([\d,]+) rows? [x{TIMES}] ([\d,]+) columns?")


def _profile(path: str, block: str) -> Table | None:
    """Return the table in a described file: its columns, types, and the values of some columns."""
    size = _ROWS.search(block.partition("\n")[0])
    if size is None or "header=None" in block:
        return None
    columns, values = dict[str, str](), list[tuple[str, str]]()
    keys, dates = set[str](), set[str]()
    for cells in _read_listing(block):
        name, dtype = _plain(cells["column"]), cells["dtype"].partition(" ")[0].rstrip(",")
        is_written = " with " in cells["dtype"]  # with a sign that the library does not read
        columns[name] = "str" if is_written else _PROFILE_TYPES.get(dtype, dtype)
        unique, listed = cells.get("unique", "").replace(",", ""), cells.get("values", "")
        each = listed.split(", ")
        if dtype in ("str", "object", "text") and unique == str(len(each)):
            values += [(name, value) for value in each]
        if unique == size[1].replace(",", ""):
            keys.add(name)
        if re.match(r"\d{4}-\d\d-\d\d\b", listed):
            dates.add(name)
    if _whole(columns, size[2]) is None:
        return None
    return Table("", "pandas", columns, tuple(values), frozenset(keys), frozenset(dates), path)


def _read_listing(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of an aligned listing that begins with `column` and `dtype`, by heading."""
    lines = text.splitlines()
    starts = [i for i, each in enumerate(lines) if re.match(r"column +dtype\b", each)]
    if not starts:
        return
    marks = [(found[0], found.start()) for found in re.finditer(r"\w+", lines[starts[0]])]
    ends = [at for _, at in marks[1:]] + [None]
    for line in takewhile(str.strip, lines[starts[0] + 1 :]):
        yield {name: line[at:end].strip() for (name, at), end in zip(marks, ends, strict=True)}


def _with_profile(table: Table, profiles: dict[str, Table]) -> Table:
    """Return a table with the values of the file that has the same columns."""
    for profile in profiles.values():
        if table.columns is not None and set(profile.columns or ()) == set(table.columns):
            values = tuple(dict.fromkeys((*table.values, *profile.values)))
            dates = profile.dates & {*table.of_kind("text")}
            return replace(table, values=values, keys=profile.keys, dates=dates)
    return table


def _reading(path: str, line: str) -> FileReading:
    found = _READING.fullmatch(line)
    if found is None:
        return FileReading()
    if not found["doubt"]:
        return FileReading(found["code"] if _only_reads(found["code"], path) else "")
    doubt, choices = found["doubt"], (found["one"], found["other"])
    named = [_DOUBTED.fullmatch(each) for each in doubt.split("; ")]
    if not all(named) or not _only_reads(choices[0], path):
        return FileReading(doubt=doubt, choices=choices)
    names = (name for each in named if each for name in re.findall(_QUOTED, each["names"]))
    return FileReading(choices[0], doubt, choices, frozenset(map(_plain, names)))


def choose_sheets(prompt: str, workspace: Workspace) -> tuple[str, Workspace]:
    """Return the workspace with the sheets that a prompt names, and the prompt without them."""
    for path, reading in workspace.readings.items():
        sheets = {found[2]: c for c in reading.choices if (found := SHEET.search(c))}
        if len(sheets) != len(reading.choices) or ";" in reading.doubt:
            continue
        for name, chosen in sheets.items():
            said = rf"['\"`“]?\b{re.escape(name)}\b['\"`”]?"
            words = rf"(?i)(?:[,\s]*\b(?:in|on|of|from)\b)?(?: the)?[,\s]*(?:(?:sheet|tab)\s+{said}"
            rest = re.sub(rf"{words}|{said}\s+(?:sheet|tab)\b)", "", prompt)
            if rest != prompt and _only_reads(chosen, path):
                readings = workspace.readings | {path: FileReading(chosen)}
                known = workspace.profiles.items()
                profiles = {
                    p: each for p, each in known if p != path or chosen == reading.choices[0]
                }
                return rest.strip(), replace(workspace, readings=readings, profiles=profiles)
    return prompt, workspace


def _only_reads(code: str, path: str) -> bool:
    """Return whether code is a call that reads this file: cells of a table may look like a line."""
    try:
        call = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    readers: tuple[str, ...] = ("pd.read_csv", "pd.read_excel", "pd.read_json")
    match call:
        case ast.Call(func=ast.Attribute(ast.Name("pd"), "DataFrame"), args=[call], keywords=[]):
            readers = ("pd.read_json",)
            while isinstance(call, ast.Subscript) and isinstance(call.slice, ast.Constant):
                call = call.value
    if not isinstance(call, ast.Call) or [ast.unparse(each) for each in call.args] != [repr(path)]:
        return False
    nodes = [node for option in call.keywords for node in ast.walk(option.value)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    reads = ast.unparse(call.func) in readers
    return reads and all(isinstance(n, _LITERAL) for n in nodes) and names <= {"str", "range"}


def _sections(context: str) -> dict[str, str]:
    inner = context.removesuffix("\n</context>")
    parts = re.split(r"^(Variables|Files|Mentioned with @|Tables):\n", inner, flags=re.MULTILINE)
    # The first of a name counts: a cell of a table can look like a heading.
    return dict(reversed([*zip(parts[1::2], parts[2::2], strict=True)]))


def with_variables(workspace: Workspace, listing: str) -> Workspace:
    """Return the workspace with the variables of a listing."""
    modules, is_cut = dict(workspace.modules), workspace.is_cut
    for line in listing.splitlines():
        found = _VARIABLE.fullmatch(line.strip())
        is_cut |= line.startswith("… and ") or bool(found and found["rest"].endswith(", …"))
        if found and found["name"] == "modules":  # as in `json, pd (pandas)`
            named = filter(None, map(_MODULE.fullmatch, found["rest"].split(", ")))
            modules |= {each["name"]: each["module"] or each["name"] for each in named}
        elif found and (frame := _FRAME.match(found["rest"])):
            listed = frame["rest"].removesuffix(" [polars]").removeprefix(" (").removesuffix(")")
            columns = _named_in_line(listed, frame["width"])
            if same := _SAME.fullmatch(listed):
                columns = workspace.tables.get(same["name"], Table("")).columns
            workspace = workspace.with_table(Table(found["name"], _library(frame), columns))
        elif found:
            workspace = replace(workspace, variables=workspace.variables | {found["name"]})
    return replace(workspace, modules=modules, is_cut=is_cut)


def with_files(workspace: Workspace, listing: str) -> Workspace:
    """Return the workspace with the files of a listing."""
    lines = (_SIZE.sub("", line.strip().removeprefix("- ")) for line in listing.splitlines())
    files = (line for line in lines if not line.startswith(("(", "…")) and line[-1:] not in "/")
    return replace(workspace, files=tuple(files))


def table_from_inspection(table: Table, output: str) -> Table | None:
    """Return the table with the columns in a listing of `inspect_variable`; None if unreadable."""
    first, _, listing = output.strip().partition("\n")
    found = _VARIABLE.fullmatch(first.strip())
    frame = _FRAME.match(found["rest"]) if found else None
    rows = {_plain(each["column"]): each["dtype"] for each in _read_listing(listing)}
    if frame is None or (columns := _whole(rows, frame["width"])) is None:
        return None
    return replace(table, columns=columns, library=_library(frame))


def _named_in_line(text: str, width: str) -> dict[str, str] | None:
    """Return columns of `name: dtype, name: dtype`; None if they cannot be told apart."""
    columns, at = {}, 0
    while found := _COLUMN.match(text, at):
        columns[_plain(found["name"])] = found["dtype"]
        at = found.end()
    return _whole(columns, width) if at == len(text) else None


def _whole(columns: dict[str, str], width: str) -> dict[str, str] | None:
    """Return the columns, if they are complete and no name was cut."""
    cut = any(name.endswith("…") or not dtype for name, dtype in columns.items())
    return columns if str(len(columns)) == width.replace(",", "") and not cut else None


def _plain(name: str) -> str:
    """Return a name without the quotes that listings add to ambiguous names."""
    if name[:1] not in ("'", '"'):
        return name
    try:
        return str(ast.literal_eval(name))
    except (SyntaxError, ValueError):
        return name


def _library(frame: re.Match[str]) -> Library:
    return "polars" if "[polars]" in frame["rest"] else "pandas"


# Steps after a prompt: a call, a look before it, or words.


@dataclass(frozen=True)
class _Call:
    rule: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Task(_Call):
    """An understood prompt: one call, and how to put its result into words.

    `answer` raises UnreadableError if the tool's output has not the form of the call's.
    """

    answer: Callable[[str], str]


@dataclass(frozen=True)
class Look(_Call):
    """A call whose result is needed to understand the prompt."""

    learn: Callable[[str], Workspace]


@dataclass(frozen=True)
class Say:
    """An answer that needs no call."""

    rule: str
    text: str
    declined: bool = False


@dataclass(frozen=True)
class Part:
    """Lines that answer one question, the names to delete after them, and the answer in words."""

    rule: str
    lines: tuple[str, ...]
    answer: Callable[[str], str]
    drop: tuple[str, ...] = ()
    copies: bool = False
    """Its code works on a copy of the table in pandas: it is one of polars."""


Step = Task | Look | Say


UNCLEAR = "I know these words, but not what they ask for together."


class MisfitError(Exception):
    """The words fit an intent, but not this table. The message says why.

    `offers` are pairs of words of the prompt and what could be written for them.
    """

    def __init__(self, why: str, offers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(why)
        self.offers = offers


def refuse_if(misfits: object, why: str) -> None:
    """Raise MisfitError if something does not fit."""
    if misfits:
        raise MisfitError(why)
