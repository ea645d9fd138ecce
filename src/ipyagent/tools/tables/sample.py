"""Tables in files: their kinds by the endings of names, their form, and SQLite's.

A database of SQLite is read from a copy in memory that can neither write nor run code.
"""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from ipyagent.plaintext import word_set
from ipyagent.values.describe.safe_inspect import one_line
from ipyagent.values.describe.table import COLUMNS, HEAD, Column, Table

KINDS: Mapping[str, tuple[str, str]] = {
    "csv": ("CSV file", "delimited"),
    **dict.fromkeys(("tsv", "tab"), ("TSV file", "delimited")),
    "psv": ("PSV file", "delimited"),
    "json": ("JSON file", "json"),
    **dict.fromkeys(("jsonl", "ndjson"), ("JSON Lines file", "json")),
    **dict.fromkeys(("xlsx", "xlsm", "xlsb", "xls"), ("Excel file", "sheets")),
    "ods": ("OpenDocument sheet", "sheets"),
    **dict.fromkeys(("parquet", "pq"), ("Parquet file", "columnar")),
    **dict.fromkeys(("feather", "arrow", "ipc"), ("Arrow file", "columnar")),
    "orc": ("ORC file", "columnar"),
    "dta": ("Stata file", "statistics"),
    **dict.fromkeys(("sas7bdat", "xpt"), ("SAS file", "statistics")),
    **dict.fromkeys(("sav", "zsav", "por"), ("SPSS file", "statistics")),
    **dict.fromkeys(("geojson", "gpkg"), ("geo file", "geometry")),
    **dict.fromkeys(("npy", "npz"), ("NumPy file", "arrays")),
    **dict.fromkeys(("nc", "nc4"), ("NetCDF file", "arrays")),
    **dict.fromkeys(("h5", "hdf5"), ("HDF5 file", "arrays")),
    **dict.fromkeys(("sqlite", "sqlite3", "db", "db3"), ("SQLite database", "sqlite")),
}
"""Kinds of files by the endings of their names, each with its family of formats."""
TEXTS = ("delimited", "json")
_PACKINGS = word_set("gz bz2 xz zip")


class NotTableError(Exception):
    """The file holds no table, or none that can be read here; the text says why."""


class UnreadTableError(NotTableError):
    """The file may hold a table, which no library here reads."""


def split_ending(path: str) -> tuple[str, str]:
    """Return how a file is packed, and the ending of its format; "" for none."""
    parts = path.lower().rpartition("/")[2].split(".")
    packing = parts.pop() if len(parts) > 2 and parts[-1] in _PACKINGS else ""
    ending = parts[-1] if len(parts) > 1 else ""
    kind = KINDS.get(ending)
    if kind is None or (packing and kind[1] not in TEXTS):
        return "", ""
    return packing, ending


@dataclass(frozen=True)
class FileTable:
    """A table in a file, described as variables are; `total` is the number of rows, if known."""

    table: Table
    call: str = ""
    """The call that loads the file."""
    total: int | None = None


def make_column(
    label: object,
    dtype: str,
    values: Sequence[object] = (),
    nulls: int | None = None,
    unique: int | None = None,
    ends: Sequence[object] = (),
    *,
    is_index: bool = False,
) -> Column:
    """Return a column: None in `values` is missing; `nulls` and `unique` are None if not counted.

    `ends` are the smallest and the largest value.
    """
    return Column(
        tuple(label) if isinstance(label, list) else label,
        dtype,
        None if nulls is None else lambda: nulls,
        None if unique is None else lambda: unique,
        lambda rows: values[rows],
        ends=lambda: ends,
        is_text=False,
        is_index=is_index,
    )


def make_table(
    kind: str,
    columns: Sequence[Column],
    width: int,
    total: int | None,
    sampled: int,
    *,
    exact: bool = True,
    facts: Sequence[str] = (),
    declared: bool = False,
    index: Sequence[Column] = (),
    levels: Sequence[object] = (),
    call: str = "",
    lines: Sequence[str] = (),
) -> FileTable:
    """Return a table with some of its columns and rows, and what is known of the rest.

    `sampled` rows of `total` were looked at; `exact` is false for an estimate, `declared` true if
    the file itself declares the types. `lines` are the first of the file as they stand.
    """
    counted = "rows not counted"
    if total is not None:
        counted = f"{total:,} rows" if exact else f"{approximate(total)} rows"
    in_part = bool(sampled) and total != sampled and not declared
    part = [f"types, nulls, unique: from {sampled:,} of these rows"] if in_part else []
    table = Table(
        kind,
        max((len(each.values(slice(None))) for each in columns), default=0),
        width,
        columns[:COLUMNS],
        memory=lambda: 0,
        row_count=counted,
        facts=(*([f"read with: {call}"] if call else []), *facts, *part),
        index=index,
        levels=levels,
        counted_of=f" of {sampled:,}" if in_part else "",
        lines=lines,
    )
    return FileTable(table, call, total)


def approximate(count: int) -> str:
    """Return a number in words with two digits: about 1.2 M, about 34,000."""
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if count >= 0.995 * size:
            amount = count / size
            return f"about {amount:.1f}{unit}" if amount < 9.95 else f"about {amount:,.0f}{unit}"
    digits = len(str(count))
    return f"about {round(count, 2 - digits) if digits > 2 else count:,}"


# SQLite ----------------------------------------------------------------------------------------

MAGIC = b"SQLite format 3\0"
_WHOLE = 32_000_000
"""Bytes of the largest database that is read as a whole."""
_PART = 4 << 20
_SECONDS = 0.5
_STEPS = 1_000
"""Instructions of SQLite between two looks at the clock."""
_TABLES = 30
_PARTS = (
    *("data", "idx", "content", "docsize", "config"),
    *("segments", "segdir", "stat", "node", "rowid", "parent"),
)
"""Tables in which indexes of texts and of places keep what they hold, behind their own name."""
_LONGEST = 2_000_000
"""Bytes of a value, and of a statement in the schema."""
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)


def read_database(file: BinaryIO, size: int, log: bytes) -> list[FileTable]:
    """Return the tables of a database, the largest first; raises NotTableError.

    `log` is its write-ahead log, which holds its newest pages.
    """
    whole = size <= _WHOLE
    data = bytearray(file.read(_WHOLE if whole else _PART))
    if whole and log:
        _apply_log(data, log)
    if len(data) < 512 or not data.startswith(MAGIC):
        raise NotTableError("it is not a SQLite database")
    data[18:20] = b"\1\1"  # in memory there is no write-ahead log
    if not whole:
        data[92:96] = bytes(byte ^ 255 for byte in data[24:28])  # do not trust the page count
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.deserialize(bytes(data))
            _restrict(connection)
            return _read_tables(connection, whole)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise NotTableError(f"its tables cannot be read: {error}") from None


def _apply_log(data: bytearray, log: bytes) -> None:
    """Put the pages of a write-ahead log into a database, up to its last transaction.

    Source of the format: https://www.sqlite.org/fileformat2.html#walformat
    """
    (size,), salts = struct.unpack_from(">I", log, 8), log[16:24]
    waiting, pages, total = dict[int, bytes](), dict[int, bytes](), 0
    for at in range(32, len(log) - size - 23, 24 + size) if size >= 512 else ():
        number, count = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != salts:
            break  # the rest is older
        waiting[number] = log[at + 24 : at + 24 + size]
        if count:  # the pages of the database, at the end of a transaction
            pages, waiting, total = pages | waiting, {}, count
    if 0 < total * size <= _WHOLE:
        data[:] = data[: total * size].ljust(total * size, b"\0")
        for number, page in pages.items():
            if 0 < number <= total:
                data[(number - 1) * size : number * size] = page


def _restrict(connection: sqlite3.Connection) -> None:
    """Allow reading only, for a short time: a schema can hold views, triggers and expressions."""
    until = time.monotonic() + _SECONDS
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = (
        action in _READING
        or (action == sqlite3.SQLITE_FUNCTION and second == "count")
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _read_tables(connection: sqlite3.Connection, whole: bool) -> list[FileTable]:
    entries = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view')"
    ).fetchmany(1_000)
    virtual = [name for kind, name, sql in entries if kind == "table" and not _is_plain(sql)]
    hidden = {f"{name}_{part}" for name in virtual for part in _PARTS}.union(virtual)
    tables = [
        name
        for kind, name, _ in entries
        if kind == "table" and not name.startswith("sqlite_") and name not in hidden
    ]
    views = [f"view {name}, not run" for kind, name, _ in entries if kind == "view"]
    others = len(entries) - len(views) - len(tables)
    facts = [", ".join(views[:5])] if views else []
    facts += [f"{others} virtual or internal tables, not read"] if others else []
    facts += [] if whole else [f"only the first {_PART >> 20} MB of the database were read"]
    samples = [_read_table(connection, name, whole) for name in tables[:_TABLES]]
    if not samples:
        raise NotTableError("; ".join(["it has no tables", *facts]))
    samples.sort(key=lambda each: -(each.total or 0))
    first = samples[0]
    more = [f"{len(tables) - _TABLES} more tables"] if len(tables) > _TABLES else []
    table = replace(first.table, facts=(*(first.table.facts or ()), *facts, *more))
    return [replace(first, table=table), *samples[1:]]


def _is_plain(sql: object) -> bool:
    return isinstance(sql, str) and not sql.lstrip().upper().startswith("CREATE VIRTUAL")


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_table(connection: sqlite3.Connection, name: str, whole: bool) -> FileTable:
    quoted = _quote_name(name)
    facts: tuple[str, ...] = ()
    rows: list[Sequence[object]] = []
    total: int | None = None
    described = connection.execute(f"PRAGMA table_xinfo({quoted})").fetchall()
    # Generated columns would be computed, by expressions of the file.
    shown = [column for column in described if not column[6]]
    names = ", ".join(_quote_name(column[1]) for column in shown[:COLUMNS])
    try:
        for row in connection.execute(f"SELECT {names} FROM {quoted} LIMIT {HEAD}"):  # noqa: S608
            rows.append(row)
        if whole:
            (total,) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()  # noqa: S608
    except (sqlite3.Error, OverflowError) as error:
        reason = f"cannot be read: {error}" if whole else "lie behind the part that was read"
        facts = (f"some of its rows {reason}",)
    if len(shown) < len(described):
        facts = (*facts, f"{len(described) - len(shown)} generated columns, not computed")
    columns = [
        make_column(
            column[1],
            (column[2] or "any type").lower() + (", key" if column[5] else ""),
            [row[n] for row in rows if n < len(row)],
        )
        for n, column in enumerate(shown[:COLUMNS])
    ]
    kind = f"SQLite table {one_line(name)!r}"
    return make_table(kind, columns, len(described), total, len(rows), facts=facts, declared=True)
