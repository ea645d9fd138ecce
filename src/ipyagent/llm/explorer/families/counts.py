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
    if ask.by and ask.columns:
        return _by_category(ask, [*ask.by, *ask.columns])
    return _by_category(ask, ask.columns or ask.by)


def _by_category(ask: Ask, keys: list[str]) -> Step:
    if not keys:
        raise MisfitError("I need a column to count by.")
    ask.groups(*keys)
    counts = ask.name(f"count_by_{'_'.join(keys)}")
    heading = [*keys, "count", "share"]
    if "count" in keys or "share" in keys:
        raise MisfitError("I can't count by a column that is itself called count or share.")
    lines = (_polars if ask.table.library == "polars" else _pandas)(ask, keys, counts)
    what = f"rows by {', '.join(keys)}"
    return ask.python(what, lines, lambda out: _said(ask, keys, heading, counts, out))


def _pandas(ask: Ask, keys: list[str], counts: str) -> list[str]:
    key = literal(keys[0] if len(keys) == 1 else keys)
    made = f"{rows(ask.table, ask.where)}.value_counts({key}, dropna=False).reset_index()"
    return [
        f"{counts} = {made}",
        f'{counts}["share"] = {counts}["count"] / {counts}["count"].sum()',
        f'print(len({counts}), "groups")',
        f"print({counts}.head({_MAX_VALUES}).to_csv(index=False))",
    ]


def _polars(ask: Ask, keys: list[str], counts: str) -> list[str]:
    links = [
        f".group_by({literal(keys)})",
        ".agg(count=pl.len())",
        '.with_columns(share=pl.col("count") / pl.col("count").sum())',
        '.sort("count", descending=True)',
    ]
    return [
        *chained(counts, rows(ask.table, ask.where), *links),
        f'print(len({counts}), "groups")',
        f"print({counts}.head({_MAX_VALUES}).write_csv())",
    ]


def _said(ask: Ask, keys: list[str], heading: list[str], counts: str, output: str) -> str:
    (groups,) = figures(output, r"(\d+) groups")
    found = block(output, heading)
    body = [[*map(cell, row[:-2]), number(row[-2]), percent(row[-1])] for row in found]
    shown = table([*map(label, keys), "rows", "share"], body, left=len(keys))
    missing = any(not all(row[: len(keys)]) for row in found)
    title = f"**Rows by {codes(keys)}** in {ask.about}"
    if len(keys) == 1:
        distinct = int(groups) - missing
        also = " and missing ones" if missing else ""
        title = f"**{code(keys[0])} has {distinct} different values{also}** in {ask.about}"
    rest = "" if int(groups) <= len(found) else f"\n\nThe {len(found)} most frequent of {groups}."
    return f"{title}\n\n{shown}{rest}\n\nThe table is in {code(counts)}."


def _share(ask: Ask) -> Step:
    if ask.by or ask.columns:
        if ask.where and not ask.by:
            raise MisfitError(
                "I can show the share of a condition or of a column's values, not both."
            )
        return _values(ask)
    return _count(ask)


RULES = (
    Rule("COUNT (OF? ROWS)? (HAS|IS)? | COUNT ROWS (IN|BY)? | COUNT IS", _count, "where by"),
    Rule("ROWS", _count, "where", "by"),
    Rule("SHARE (OF? ROWS)? (IS|HAS)?", _share, "where by"),
    Rule("SHARE OF? COL VALUES? | SHARE OF COL", _share, "by"),
    Rule("(COUNT|COUNT OF)? UNIQUE? VALUES? (OF|IN|FOR)? COL VALUES?", _values, "where by"),
    Rule("COUNT UNIQUE? COL (VALUES)? (IS|HAS)? | UNIQUE COL VALUES?", _values, "where by"),
    Rule("TOP NUMBER COL", _values, ""),
)
