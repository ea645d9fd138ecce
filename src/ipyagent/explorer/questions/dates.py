"""Parts of dates as columns: `in December`, `which month`, `per year`."""

from __future__ import annotations

from dataclasses import replace

from ipyagent.explorer.chunks import Token
from ipyagent.explorer.names import words
from ipyagent.explorer.snippets import literal
from ipyagent.explorer.workspace import Table

_PARTS = ("year", "quarter", "month")
_SAYS_DATE = frozenset({"date", "datetime", "timestamp", "day"})
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def date_column(table: Table) -> str | None:
    """Return the only column that holds dates, as such or as text."""
    dates = table.of_kind("date") or [
        column for column in table.of_kind("text") if _SAYS_DATE & set(words(column))
    ]
    return dates[0] if len(dates) == 1 and table.library == "pandas" else None


def with_date_parts(table: Table) -> Table:
    """Return the table as if it had columns for the parts of its dates."""
    if date_column(table) is None:
        return table
    own = {words(column) for column in table.columns or {}}
    parts = {part: "int32" for part in _PARTS if (part,) not in own}
    return replace(table, columns={**(table.columns or {}), **parts})


def assign_parts(table: Table, used: list[str], name: str) -> str:
    """Return the line that makes a table with these parts of its dates."""
    column = str(date_column(table))
    values = f"{table.name}[{literal(column)}]"
    dates = values if table.kind(column) == "date" else f"pd.to_datetime({values})"
    parts = ", ".join(f"{part}={dates}.dt.{part}" for part in used)
    return f"{name} = {table.name}.assign({parts})"


def month_tokens(text: str, table: Table) -> list[Token]:
    """Return the condition that the name of a month states; no tokens if it states none."""
    if text not in _MONTHS or (table.columns or {}).get("month") != "int32":
        return []
    number = Token("NUMBER", _MONTHS.index(text) + 1, text)
    return [Token("COL", "month", text), Token("IS", "", text), number]
