"""Counts and shares: rows that meet a condition, rows by category, distinct values."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.markdown import (
    block,
    cell,
    code,
    codes,
    figures,
    label,
    number,
    percent,
    table,
)
from ipyagent.llm.explorer.snippets import chained, literal, rows
from ipyagent.llm.explorer.steps import MisfitError, Step

_MAX_VALUES = 30


def _count(ask: Ask) -> Step:
    """`how many penguins are female`, `how many penguins per island`."""
    if ask.by:
        return _by_category(ask, ask.by)
    if not ask.where:
        raise MisfitError("I need a condition to count by, or a column.")
    name = ask.table.name
    line = f'print(len({rows(ask.table, ask.where)}), "of", len({name}), "rows")'

    def answer(output: str) -> str:
        part, whole = figures(output, r"(\d+) of (\d+) rows")
        tests = " and ".join(code(str(each)) for each in ask.where)
        return (
            f"**{number(part)}** of {number(whole)} rows of {code(name)} "
            f"({percent(part, whole)}) meet {tests}."
        )

    return ask.python("count rows that meet a condition", [line], answer)


def _values(ask: Ask) -> Step:
    """`value counts of species`, `how many species`, `share of each species`."""
    if ask.by and ask.columns and not ask.says("count"):
        raise MisfitError("Do you mean rows, or different values? Say “count … by … and …”.")
    return _by_category(ask, [*ask.by, *ask.columns])


def _most_frequent(ask: Ask) -> Step:
    """`top 3 species`."""
    most = ask.all("NUMBER")[0]
    if ask.all("TOP") != ["max"] or not (isinstance(most, int) and 0 < most <= _MAX_VALUES):
        raise MisfitError(f"I can show the 1 to {_MAX_VALUES} most frequent values.")
    return _by_category(ask, ask.columns, most)


def _by_category(ask: Ask, keys: list[str], most: int = _MAX_VALUES) -> Step:
    if not keys:
        raise MisfitError("I need a column to count by.")
    ask.groups(*keys)
    if "count" in keys or "share" in keys:
        raise MisfitError("I can't count by a column that is itself called count or share.")
    name = ask.name(f"count_by_{'_'.join(keys)}")
    polars = ask.table.library == "polars"
    drop, writer = ("drop_nulls", "write_csv()") if polars else ("dropna", "to_csv(index=False)")
    lines = [
        *(_polars if polars else _pandas)(ask, keys, name),
        f'print(len({name}), "groups,", len({name}.{drop}()), "without gaps")',
        f"print({name}.head({most}).{writer})",
    ]
    what = f"rows by {', '.join(keys)}"
    return ask.python(what, lines, lambda out: _said(ask, keys, name, out))


def _pandas(ask: Ask, keys: list[str], name: str) -> list[str]:
    key = literal(keys[0] if len(keys) == 1 else keys)
    made = f"{rows(ask.table, ask.where)}.value_counts({key}, dropna=False).reset_index()"
    return [
        f"{name} = {made}",
        f'{name}["share"] = {name}["count"] / {name}["count"].sum()',
    ]


def _polars(ask: Ask, keys: list[str], name: str) -> list[str]:
    return chained(
        name,
        rows(ask.table, ask.where),
        f".group_by({literal(keys)})",
        ".agg(count=pl.len())",
        '.with_columns(share=pl.col("count") / pl.col("count").sum())',
        f".sort({literal(['count', *keys])}, descending={[True] + [False] * len(keys)})",
    )


def _said(ask: Ask, keys: list[str], name: str, output: str) -> str:
    groups, named = figures(output, r"(\d+) groups, (\d+) without gaps")
    found = block(output, [*keys, "count", "share"])
    body = [[*map(cell, row[:-2]), number(row[-2]), percent(row[-1])] for row in found]
    shown = table([*map(label, keys), "rows", "share"], body, left=len(keys))
    head = f"**Rows by {codes(keys)}** in {ask.about}"
    if len(keys) == 1:
        also = "" if named == groups else " and missing ones"
        values = "value" if named == "1" else "different values"
        head = f"**{code(keys[0])} has {named} {values}{also}** in {ask.about}"
    rest = "" if int(groups) <= len(found) else f"\n\nThe {len(found)} most frequent of {groups}."
    return f"{head}\n\n{shown}{rest}\n\nThe table is in {code(name)}."


def _share(ask: Ask) -> Step:
    """`share of each species`, `what percentage of penguins are female`."""
    if len(ask.where) > 1 or (ask.where and (ask.by or ask.columns)):
        raise MisfitError("A share of what? I can take one condition, or one column's values.")
    return _values(ask) if ask.by or ask.columns else _count(ask)


RULES = (
    Rule("COUNT (OF? ROWS)? (HAS|IS)? | COUNT ROWS (IN|BY)? | COUNT IS", _count, "where by"),
    Rule("ROWS", _count, "where", "by"),
    Rule("", _count, "where", "by table"),
    Rule("SHARE (OF? ROWS)? (IS|HAS)? | SHARE OF? COL VALUES?", _share, "where by"),
    Rule("COUNT? UNIQUE? VALUES? (OF|IN|FOR)? COL VALUES?", _values, "where by"),
    Rule("COUNT UNIQUE? COL VALUES? (IS|HAS)?", _values, "where by"),
    Rule("TOP NUMBER COL", _most_frequent),
)
