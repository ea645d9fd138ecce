"""The shape of a table: rows, columns, types, the first lines."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.markdown import block, cell, code, figures, label, table
from ipyagent.llm.explorer.steps import MisfitError, Step, Task

_SIZE = r".*DataFrame, ([\d,]+) rows? [×x] ([\d,]+) columns?.*"
_MAX_HEAD = 50


def _size(ask: Ask) -> Step:
    def answer(output: str) -> str:
        rows, columns = figures(output, _SIZE)
        return f"{code(ask.table.name)} has **{rows} rows** and **{columns} columns**."

    return _inspection(ask, "size of the table", answer)


def _columns(ask: Ask) -> Step:
    # Nothing is asked of the columns that is not known by now: they were listed to get here.
    listed = [[label(name), cell(dtype)] for name, dtype in (ask.table.columns or {}).items()]

    def answer(output: str) -> str:
        _, width = figures(output, _SIZE)
        return f"**{code(ask.table.name)} has {width} columns**\n\n" + "\n".join(
            ["| column | type |", "|---|---|", *(f"| {name} | {kind} |" for name, kind in listed)]
        )

    return _inspection(ask, "columns and types", answer)


def _inspection(ask: Ask, rule: str, answer) -> Task:  # type: ignore[no-untyped-def]
    name = ask.table.name
    return Task(f"{rule} ({name})", "inspect_variable", {"name": name}, answer)


def _head(ask: Ask) -> Step:
    end = next(iter(ask.all("FIRST")), "head")
    count = next(iter(ask.all("NUMBER")), 5)
    if not (isinstance(count, int) and 0 < count <= _MAX_HEAD):
        raise MisfitError(f"I can show 1 to {_MAX_HEAD} rows.")
    writer = "write_csv()" if ask.table.library == "polars" else "to_csv(index=False)"
    name, heading = ask.table.name, list(ask.table.columns or {})
    which = "first" if end == "head" else "last"

    def answer(output: str) -> str:
        rows = [[cell(value) for value in row] for row in block(output, heading)]
        title = f"**The {which} {len(rows)} rows of {code(name)}**"
        return f"{title}\n\n{table([*map(label, heading)], rows, left=len(heading))}"

    return ask.python(f"{which} rows", [f"print({name}.{end}({count}).{writer})"], answer)


RULES = (
    Rule(
        "SIZE | COUNT ROWS (AND COUNT? COLUMNS)? | COUNT COLUMNS (AND ROWS)? | ROWS AND COLUMNS",
        _size,
    ),
    Rule("COUNT", _size),
    Rule(
        "COLUMNS (AND (COLUMNS|TYPES))? | TYPES (OF COLUMNS)? | COLUMNS (HAS|IS|WITH) TYPES?",
        _columns,
    ),
    Rule(
        "SHOW | FIRST NUMBER? ROWS? | SHOW FIRST NUMBER? ROWS? | SHOW NUMBER ROWS | NUMBER ROWS",
        _head,
    ),
)
