"""Counts and shares: rows that meet a condition, rows by category, distinct values."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.families.grouping import MOST
from ipyagent.explorer.markdown import (
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
from ipyagent.explorer.snippets import literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step

_MAX_VALUES = 30  # rows of the answer


def _count(ask: Ask) -> Step:
    """Answer `how many penguins are female`, `how many penguins per island`."""
    if ask.by:
        return _by_category(ask, ask.by)
    if not ask.where:
        raise MisfitError("I need a condition to count by, or a column.")
    name = ask.table.name
    line = f'print(len({rows(ask.table, ask.where)}), "of", len({name}), "rows")'

    def answer(output: str) -> str:
        part, whole = figures(output, r"(\d+) of (\d+) rows")
        tests = " and ".join(code(str(each)) for each in ask.where)
        few, share = number(part), percent(part, whole)
        head = f"**{share}** ({few} of" if ask.has("SHARE") else f"**{few}** of"
        tail = ")" if ask.has("SHARE") else f" ({share})"
        return f"{head} {number(whole)} rows of {code(name)}{tail} meet {tests}."

    return ask.python("count rows that meet a condition", [line], answer)


def _values(ask: Ask) -> Step:
    """Answer `value counts of species`, `how many species`, `share of each species`."""
    counted = any(map(ask.says, ("how many", "number of", "total number of")))
    if ask.by and ask.columns and counted:
        raise MisfitError("Do you mean rows, or different values? Say “count … by … and …”.")
    return _by_category(ask, [*ask.by, *ask.columns])


def _most_frequent(ask: Ask) -> Step:
    """Answer `top 3 species`."""
    most = ask.all("NUMBER")[0]
    if ask.all("TOP") != ["max"] or not (isinstance(most, int) and 0 < most <= _MAX_VALUES):
        raise MisfitError(f"I can show the 1 to {_MAX_VALUES} most frequent values.")
    return _by_category(ask, ask.columns, most)


def _by_category(ask: Ask, keys: list[str], most: int = _MAX_VALUES) -> Step:
    if not keys:
        raise MisfitError("I need a column to count by.")
    ask.groups(*keys)
    if "count" in keys:
        raise MisfitError("I can't count by a column that is itself called count.")
    source = rows(ask.table, ask.where)
    if ask.table.library == "polars":
        order = f"{literal(['count', *keys])}, descending={[True] + [False] * len(keys)}"
        links = [f".group_by({literal(keys)})", ".agg(count=pl.len())", f".sort({order})"]
        lines = print_chain(source, *links, f".head({MOST})", ".write_csv()")
    else:
        key = literal(keys[0] if len(keys) == 1 else keys)
        lines = print_chain(
            source, f".value_counts({key}, dropna=False)", f".head({MOST})", ".to_csv()"
        )
    request = f"rows by {', '.join(keys)}"
    return ask.python(
        request, lines, lambda out: _describe_counts(ask, keys, block(out, [*keys, "count"]), most)
    )


def _describe_counts(ask: Ask, keys: list[str], found: list[list[str]], most: int) -> str:
    total = sum(int(row[-1]) for row in found)
    named = sum(all(row[:-1]) for row in found)
    cut = len(found) == MOST  # there may be more, so that no total is known
    body = [
        [*map(cell, row[:-1]), number(row[-1]), "" if cut else percent(row[-1], total)]
        for row in found[:most]
    ]
    shown = table([*map(label, keys), "rows", "share"], body, left=len(keys))
    head = f"**Rows by {codes(keys)}** in {ask.about}"
    if len(keys) == 1:
        also = " and missing ones" if named < len(found) else ""
        values = "value" if named == 1 else "different values"
        many = f"at least {named}" if cut else named
        head = f"**{code(keys[0])} has {many} {values}{also}** in {ask.about}"
    rest = f"\n\nThe {most} most frequent of {len(found)}." if most < len(found) else ""
    return f"{head}\n\n{shown}{rest}"


def _share(ask: Ask) -> Step:
    """Answer `share of each species`, `what percentage of penguins are female`."""
    if len(ask.where) > 1 or sum(map(bool, (ask.where, ask.by, ask.columns))) > 1:
        raise MisfitError("A share of what? I can take one condition, or one column's values.")
    return _values(ask) if ask.by or ask.columns else _count(ask)


RULES = (
    SentenceRule(
        "COUNT (OF? ROWS)? (HAS|IS)? | COUNT ROWS (IN|BY)? | COUNT IS", _count, "where by"
    ),
    SentenceRule("ROWS", _count, "where", "by"),
    SentenceRule("", _count, "where", "by table"),
    SentenceRule("SHARE (OF? ROWS)? (IS|HAS)? | SHARE OF? COL VALUES?", _share, "where by"),
    SentenceRule("COUNT? UNIQUE? VALUES? (OF|IN|FOR)? COL VALUES?", _values, "where by"),
    SentenceRule("COUNT UNIQUE? COL VALUES? (IS|HAS)?", _values, "where by"),
    SentenceRule("TOP NUMBER COL", _most_frequent),
)
