"""Comparisons: of two groups in a table, and of two tables."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.families.grouping import by_group
from ipyagent.explorer.families.statistic import StatisticQuestion, expressions, title
from ipyagent.explorer.markdown import (
    block,
    cell,
    code,
    codes,
    figures,
    label,
    number,
    numbers,
    table,
)
from ipyagent.explorer.snippets import literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step
from ipyagent.explorer.workspace import Table

_STATS = ["count", "mean", "median", "std"]


def _two_groups(ask: Ask) -> Step:
    (key, one), (_, other) = ask.all("PAIR")[0]
    column = ask.number
    source, pair = rows(ask.table, ask.where), literal([one, other])
    if ask.table.library == "polars":
        lines = print_chain(
            source,
            f".filter(pl.col({literal(key)}).is_in({pair}))",
            f".group_by({literal(key)})",
            f".agg({expressions(column, _STATS)})",
            ".write_csv()",
        )
    else:
        links = [f".groupby({literal(key)})[{literal(column)}]", f".agg({literal(_STATS)})"]
        lines = print_chain(source, *links, f".reindex({pair})", ".to_csv()")
    return ask.python(
        f"{column} of {one} and {other}",
        lines,
        lambda output: _describe_difference(
            ask, column, (one, other), block(output, [key, *_STATS])
        ),
    )


def _describe_difference(
    ask: Ask, column: str, names: tuple[str, str], found: list[list[str]]
) -> str:
    by_name = {row[0]: row[1:] for row in found}
    means = [by_name.get(name, ["", ""])[1] for name in names]
    if not all(means):
        return f"One of {codes(names)} has no values of {code(column)} in {ask.about}."
    key = ask.all("PAIR")[0][0][0]
    body = numbers([by_name[name] for name in names])
    shown = table(
        [label(key), *map(title, _STATS)],
        [[cell(name), *row] for name, row in zip(names, body, strict=True)],
    )
    gap = float(means[0]) - float(means[1])
    if gap == 0:
        head = f"**{cell(names[0])} and {cell(names[1])} have the same mean {code(column)}**"
    else:
        higher = names[0] if gap > 0 else names[1]
        head = f"**{cell(higher)} has the higher mean {code(column)}**, by {number(str(abs(gap)))}"
    return f"{head} (in {ask.about})\n\n{shown}"


def _two_means(ask: Ask) -> Step:
    if ask.all("STAT") != ["mean"]:
        raise MisfitError("I compare two groups by their means.")
    return _two_groups(ask)


def _by_column(ask: Ask) -> Step:
    return by_group(StatisticQuestion(ask, ask.numeric(*ask.columns), ["mean", "median", "std"]))


def _across(ask: Ask) -> Step:
    """Answer `compare body mass between species`."""
    column, *keys = ask.columns
    if len(keys) != 1:
        raise MisfitError("I need one column to measure and another one to group by.")
    return by_group(
        StatisticQuestion(ask.group_by(keys[0]), ask.numeric(column), ["mean", "median", "std"])
    )


def two_tables(ask: Ask, other: Table, key: str | None) -> Step:
    """Compare two tables: size, columns and types; common rows, or differences by a key."""
    one = ask.table
    if "polars" in (one.library, other.library):
        raise MisfitError("I can compare two pandas tables only.")
    if key:
        return _by_key(ask, other, key)
    shared = _shared_columns(one, other)
    names = one.name, other.name
    lines = [
        f'print(len({names[0]}), "and", len({names[1]}), "rows")',
        *(_common_rows(ask, other, shared) if shared else []),
    ]
    return ask.python(
        f"compare {names[0]} and {names[1]}",
        lines,
        lambda out: _tables_said(one, other, shared, out),
    )


def _shared_columns(one: Table, other: Table) -> list[str]:
    theirs = other.columns or {}
    return [name for name, dtype in (one.columns or {}).items() if theirs.get(name) == dtype]


def _common_rows(ask: Ask, other: Table, shared: list[str]) -> list[str]:
    chosen = f"[{literal(shared)}]"
    if shared == list(ask.table.columns or {}) == list(other.columns or {}):
        chosen = ""
    return print_chain(
        f"{ask.table.name}{chosen}",
        ".drop_duplicates()",
        f'.merge({other.name}{chosen}.drop_duplicates(), how="outer", indicator=True)["_merge"]',
        ".value_counts()",
        ".to_csv()",
    )


def _tables_said(one: Table, other: Table, shared: list[str], output: str) -> str:
    left, right = figures(output, r"(\d+) and (\d+) rows")
    mine, theirs = one.columns or {}, other.columns or {}
    names = code(one.name), code(other.name)
    only = [[c for c in mine if c not in theirs], [c for c in theirs if c not in mine]]
    changed = [c for c in mine if c in theirs and c not in shared]
    notes = [f"- Only in {n}: {codes(c)}" for n, c in zip(names, only, strict=True) if c]
    for c in changed:
        notes.append(f"- {code(c)} is {cell(mine[c])} in one, {cell(theirs[c])} in the other")
    if shared:
        counts = dict(block(output, ["_merge", "count"]))
        both, mine_only, theirs_only = (counts[k] for k in ("both", "left_only", "right_only"))
        notes.append(
            f"- Different rows over the {len(shared)} shared columns: {both} in both, "
            f"{mine_only} only in {names[0]}, {theirs_only} only in {names[1]}"
        )
    sizes = [["rows", left, right], ["columns", str(len(mine)), str(len(theirs))]]
    shown = table(["", *map(label, (one.name, other.name))], sizes)
    return f"**{names[0]} and {names[1]}**\n\n{shown}\n\n" + "\n".join(notes)


def _by_key(ask: Ask, other: Table, key: str) -> Step:
    shared = [c for c in ask.table.columns or {} if c in (other.columns or {}) and c != key]
    if key not in (other.columns or {}) or not shared:
        raise MisfitError(f"Both tables need {code(key)} and one more column in common.")
    name, columns = ask.name("differences"), literal(shared)
    both = ask.table.name, other.name
    tables = [f"{each}.set_index({literal(key)})[{columns}]" for each in both]
    lines = [
        f"def {name}(left, right):",
        "    keys = left.index.intersection(right.index)",
        '    print(len(left), "and", len(right), "rows,", len(keys), "shared keys")',
        "    left, right = left.loc[keys], right.loc[keys]",
        "    return ((left != right) & (left.notna() | right.notna())).sum()",
        "",
        *print_chain(
            f"{name}({', '.join(tables)})",
            '.rename("differences")',
            '.to_csv(index_label="column")',
        ),
    ]

    def answer(output: str) -> str:
        ours, theirs, common = figures(output, r"(\d+) and (\d+) rows, (\d+) shared keys")
        body = [[label(c), n] for c, n in block(output, ["column", "differences"])]
        sizes = f"{code(ask.table.name)} ({ours} rows) and {code(other.name)} ({theirs} rows)"
        head = f"**{sizes} share {common} values of {code(key)}**"
        return f"{head}\n\n{table(['column', 'rows that differ'], body)}"

    request = f"compare {ask.table.name} and {other.name} by {key}"
    return ask.python(request, lines, answer, name)


TABLES = "(COMPARE|DIFFERENCE) (BETWEEN|OF)? TABLE (AND|WITH|TO|VS) TABLE"
KEYED = f"{TABLES} (BY|ON) COL"
RULES = (
    SentenceRule("COMPARE COL (BETWEEN|OF|FOR|IN|BY)? PAIR", _two_groups, "where"),
    SentenceRule("COMPARE PAIR (BY|IN|ON|FOR) COL", _two_groups, "where"),
    SentenceRule("DIFFERENCE (IN|OF) COL BETWEEN PAIR", _two_groups, "where"),
    SentenceRule("DIFFERENCE (IN|OF) STAT COL BETWEEN PAIR", _two_means, "where"),
    SentenceRule("COL DIFFERENCE BETWEEN PAIR", _two_groups, "where"),
    SentenceRule("COMPARE COL BETWEEN COL", _across, "where digits"),
    SentenceRule("COMPARE COL", _by_column, "where digits", "by"),
)
