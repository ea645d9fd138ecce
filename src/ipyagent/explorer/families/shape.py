"""The shape of a table: rows, columns, types, the first lines."""

from __future__ import annotations

from collections.abc import Callable

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.markdown import block, cell, code, figures, label, table
from ipyagent.explorer.snippets import rows
from ipyagent.explorer.steps import MisfitError, Step, Task
from ipyagent.explorer.workspace import TIMES

_SIZE = rf".*DataFrame, ([\d,]+) rows? [x{TIMES}] ([\d,]+) columns?.*"
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


def _inspection(ask: Ask, rule: str, answer: Callable[[str], str]) -> Task:
    name = ask.table.name
    return Task(f"{rule} ({name})", "inspect_variable", {"name": name}, answer)


def _head(ask: Ask) -> Step:
    end = next(iter(ask.all("FIRST", "END")), "head")
    count = next(iter(ask.all("NUMBER")), 1 if ask.says("row") else 5)
    if not (isinstance(count, int) and 0 < count <= _MAX_HEAD):
        raise MisfitError(f"I can show 1 to {_MAX_HEAD} rows.")
    writer = "write_csv()" if ask.table.library == "polars" else "to_csv(index=False)"
    name, heading = ask.table.name, list(ask.table.columns or {})
    which = "first" if end == "head" else "last"

    def answer(output: str) -> str:
        body = [[cell(value) for value in row] for row in block(output, heading)]
        many = "row" if len(body) == 1 else f"{len(body)} rows"
        title = f"**The {which} {many} of {code(name)}**"
        return f"{title}\n\n{table([*map(label, heading)], body, left=len(heading))}"

    return ask.python(f"{which} rows", [f"print({name}.{end}({count}).{writer})"], answer)


def _rows(ask: Ask) -> Step:
    """Answer `show rows where sex is male`, `penguins with body mass above 6000`."""
    count = next(iter(ask.all("NUMBER")), 10)
    if not (isinstance(count, int) and 0 < count <= _MAX_HEAD):
        raise MisfitError(f"I can show 1 to {_MAX_HEAD} rows.")
    name, heading = ask.table.name, list(ask.table.columns or {})
    source = rows(ask.table, ask.where)
    writer = "write_csv()" if ask.table.library == "polars" else "to_csv(index=False)"
    lines = [
        f'print(len({source}), "of", len({name}), "rows")',
        f"print({source}.head({count}).{writer})",
    ]

    def answer(output: str) -> str:
        part, whole = figures(output, r"(\d+) of (\d+) rows")
        if part == "0":
            return f"No row of {ask.about} ({whole} rows in all)."
        body = [[cell(value) for value in row] for row in block(output, heading)]
        shown = table([*map(label, heading)], body, left=len(heading))
        some = f"; here are {len(body)}" if int(part) > len(body) else ""
        return f"**{part} of {whole} rows** in {ask.about}{some}\n\n{shown}"

    return ask.python("rows that meet a condition", lines, answer)


RULES = (
    SentenceRule(
        "SIZE IS? | COUNT | COUNT ROWS (AND COUNT? COLUMNS)? | COUNT COLUMNS (AND ROWS)?", _size
    ),
    SentenceRule("ROWS AND COLUMNS | COLUMNS AND ROWS", _size),
    SentenceRule("COLUMNS (AND (COLUMNS|TYPES))? | TYPES (OF COLUMNS)?", _columns),
    SentenceRule("COLUMNS (HAS|IS|WITH) TYPES?", _columns),
    SentenceRule(
        "SHOW | LOOKS | FIRST NUMBER ROWS? | NUMBER? FIRST ROWS | NUMBER ROWS | END NUMBER? ROWS?",
        _head,
    ),
    SentenceRule("(SHOW|FIRST NUMBER|NUMBER)? ROWS | SHOW", _rows, "", "where"),
    SentenceRule("", _rows, "", "where table"),
)
