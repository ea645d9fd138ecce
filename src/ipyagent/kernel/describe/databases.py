"""Descriptions of databases by their catalogs: tables, columns, estimated rows; no query runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ipyagent.kernel.describe.metadata import (
    ENTRIES,
    NOT_COMPUTED,
    LazyTable,
    describe_entries,
    is_library_class,
    name_types,
)
from ipyagent.kernel.describe.safe_inspect import one_line, type_name
from ipyagent.kernel.describe.table import label_text
from ipyagent.phrases import plural
from ipyagent.redaction import Secrecy

_DEFINITION = 300  # characters of a table's definition
FAR = "type <> 'duckdb' OR path LIKE '%://%'"
"""The condition for a database that may be on a server."""
DATABASES = f"SELECT count(*) FROM system.main.duckdb_databases() WHERE NOT internal AND ({FAR})"  # noqa: S608
"""The query that counts them."""

# Columns come from the definitions: asked for the columns of a view, DuckDB may resolve its query.
_CATALOG = """
    SELECT database_name, schema_name, table_name, sql, estimated_size, NULL
    FROM system.main.duckdb_tables() WHERE NOT internal
    UNION ALL
    SELECT database_name, schema_name, view_name, sql, NULL, 'view'
    FROM system.main.duckdb_views() WHERE NOT internal
"""


class _DuckRelation(Protocol):
    columns: Sequence[str]
    types: Sequence[object]


class _DuckConnection(Protocol):
    def cursor(self) -> _DuckConnection: ...
    def execute(self, query: str) -> _DuckConnection: ...
    def fetchall(self) -> list[tuple[object, ...]]: ...
    def close(self) -> None: ...


def duckdb_relation(value: _DuckRelation, secret: Secrecy, detail: bool) -> str:
    """Describe a relation: its columns were resolved when it was made, its rows never were."""
    columns = name_types(zip(value.columns, value.types, strict=True), "duckdb", "_duckdb")
    return LazyTable("DuckDBPyRelation", columns, [NOT_COMPUTED], "duckdb").text(detail)


def duckdb_connection(value: _DuckConnection, secret: Secrecy, detail: bool) -> str:
    """Describe a connection by the catalog of its database.

    A cursor of its own asks, so a result that the user has not fetched yet stays. What an open
    transaction has made is not seen.
    """
    cursor = value.cursor()
    try:
        far = cursor.execute(DATABASES).fetchall()[0][0]
        rows = [] if far else cursor.execute(_CATALOG).fetchall()
    finally:
        cursor.close()
    if far:
        return "DuckDBPyConnection, with databases elsewhere; SHOW ALL TABLES lists the tables"
    several = len({row[0] for row in rows}) > 1
    entries = [_describe_duckdb_table(several, *row) for row in rows[:ENTRIES]]
    counts = [plural(sum(row[5] is None for row in rows), "table")]
    if views := sum(row[5] is not None for row in rows):
        counts.append(plural(views, "view"))
    return describe_entries(f"DuckDBPyConnection, {', '.join(counts)}", entries, len(rows), detail)


def _describe_duckdb_table(
    several: bool,
    database: object,
    schema: object,
    name: object,
    sql: object,
    rows: object,
    view: object,
) -> str:
    place = f"{database}." if several else ""
    place += "" if schema == "main" else f"{schema}."
    definition = str(sql or "").rstrip("; \n")
    if view:
        _, _, query = definition.partition(" AS ")
        return one_line(f"{place}{name} (view): {query.strip()}", _DEFINITION)
    columns = definition[definition.find("(") :] if "(" in definition else ""
    return f"{one_line(f'{place}{name}{columns}', _DEFINITION)}, ~{rows:,} rows"


class _IbisTable(Protocol):
    def schema(self) -> Mapping[str, object]: ...


def ibis_table(value: _IbisTable, secret: Secrecy, detail: bool) -> str:
    """Describe an expression of Ibis by its schema, which it holds."""
    columns = name_types(value.schema().items(), "ibis")
    return LazyTable("Table", columns, [NOT_COMPUTED], "ibis").text(detail)


class _SqlColumn(Protocol):
    name: str
    type: object
    primary_key: bool


class _SqlTable(Protocol):
    fullname: str
    columns: Iterable[_SqlColumn]


class _SqlMetaData(Protocol):
    tables: Mapping[str, _SqlTable]


class _SqlUrl(Protocol):
    def render_as_string(self, hide_password: bool) -> str: ...


class _SqlEngine(Protocol):
    url: _SqlUrl


def sqlalchemy_table(value: _SqlTable, secret: Secrecy, detail: bool) -> str:
    """Describe a table of SQLAlchemy by the columns that it has loaded."""
    columns = [(label_text(str(each.name)), _sql_type(each)) for each in value.columns]
    facts = [f"of {one_line(value.fullname)}", "not queried"]
    return LazyTable("Table", columns, facts, "sqlalchemy").text(detail)


def _sql_type(column: _SqlColumn) -> str:
    """Return a column's type; a type of the user's own by its class's name."""
    cls = type(column.type)
    known = is_library_class(cls, "sqlalchemy")
    text = type_name(cls) if not known else one_line(str(column.type))
    return f"{text} key" if column.primary_key else text


def sqlalchemy_metadata(value: _SqlMetaData, secret: Secrecy, detail: bool) -> str:
    """Describe a catalog of SQLAlchemy: the tables that it has loaded, and their columns."""
    tables = [*value.tables.values()]
    entries = []
    for each in tables[:ENTRIES]:
        names = ", ".join(label_text(str(column.name)) for column in each.columns)
        entries.append(one_line(f"{each.fullname}({names})", _DEFINITION))
    return describe_entries(
        f"MetaData, {plural(len(tables), 'table')} [sqlalchemy]", entries, len(tables), detail
    )


def sqlalchemy_engine(value: _SqlEngine, secret: Secrecy, detail: bool) -> str:
    """Describe an engine by its address, without the password; it is not connected."""
    return f"Engine [sqlalchemy], {one_line(value.url.render_as_string(hide_password=True))}"
