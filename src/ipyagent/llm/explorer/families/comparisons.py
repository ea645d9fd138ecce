"""Comparisons: of two groups in a table, and of two tables."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.families.measures import Question, by_group, expression
from ipyagent.llm.explorer.markdown import block, cell, code, codes, figures, label, number, table
from ipyagent.llm.explorer.snippets import literal, rows
from ipyagent.llm.explorer.steps import MisfitError, Step
from ipyagent.llm.explorer.workspace import Table

_STATS = ["count", "mean", "median", "std"]


def _two_groups(ask: Ask) -> Step:
    (key, one), (_, other) = ask.all("PAIR")[0]
    column = ask.numeric(*ask.columns)[0]
    heading = [key, *_STATS]
    if ask.table.library == "polars":
        lines = [
            "print(",
            f"    {rows(ask.table, ask.where)}",
            f"    .filter(pl.col({literal(key)}).is_in({literal([one, other])}))",
            f"    .group_by({literal(key)})",
            f"    .agg({', '.join(expression(column, stat) for stat in _STATS)})",
            "    .write_csv()",
            ")",
        ]
    else:
        groups = ask.name("groups")
        lines = [
            f"{groups} = {rows(ask.table, ask.where)}.groupby({literal(key)})[{literal(column)}]",
            f"print({groups}.agg({literal(_STATS)}).loc[{literal([one, other])}].to_csv())",
        ]
    return ask.python(
        f"{column} of {one} and {other}",
        lines,
        lambda output: _groups_answer(ask, column, (one, other), block(output, heading)),
    )


def _groups_answer(ask: Ask, column: str, names: tuple[str, str], found: list[list[str]]) -> str:
    by_name = {row[0]: row[1:] for row in found}
    if set(names) - set(by_name):
        return f"One of {codes(names)} has no rows in {ask.about}."
    body = [[cell(name), *map(number, by_name[name])] for name in names]
    one, other = (float(by_name[name][1] or "nan") for name in names)
    gap = abs(one - other)
    first, second = names if one >= other else names[::-1]
    key = ask.all("PAIR")[0][0][0]
    heading = [label(key), "values", "mean", "median", "standard deviation"]
    return (
        f"**{cell(first)} has the higher mean {code(column)}**, by {number(str(gap))} "
        f"({number(by_name[first][1])} against {number(by_name[second][1])} for {cell(second)})\n\n"
        f"{table(heading, body)}\n\nIn {ask.about}."
    )


def _by_column(ask: Ask) -> Step:
    if not ask.by:
        raise MisfitError("I need two groups to compare, or a column to group by.")
    return by_group(Question(ask, ask.numeric(*ask.columns), ["mean", "median", "std"]))


def two_tables(ask: Ask, other: Table, key: str | None) -> Step:
    """Two tables: size, columns and types; rows in common, or differences by a key."""
    one = ask.table
    if "polars" in (one.library, other.library):
        raise MisfitError("I can compare two pandas tables only.")
    if key:
        return _by_key(ask, other, key)
    shared = _shared(one, other)
    names = one.name, other.name
    lines = [
        f'print(len({names[0]}), "and", len({names[1]}), "rows")',
        *(_common_rows(ask, names, shared) if shared else []),
    ]
    return ask.python(
        f"compare {names[0]} and {names[1]}",
        lines,
        lambda out: _tables_answer(one, other, shared, out),
    )


def _shared(one: Table, other: Table) -> list[str]:
    theirs = other.columns or {}
    return [name for name, dtype in (one.columns or {}).items() if theirs.get(name) == dtype]


def _common_rows(ask: Ask, names: tuple[str, str], shared: list[str]) -> list[str]:
    columns, both = ask.name("shared_columns"), ask.name("both")
    left, right = (f"{name}[{columns}].drop_duplicates()" for name in names)
    return [
        f"{columns} = {literal(shared)}",
        f'{both} = {left}.merge({right}, how="outer", indicator=True)',
        f'print({both}["_merge"].value_counts().to_csv())',
    ]


def _tables_answer(one: Table, other: Table, shared: list[str], output: str) -> str:
    left, right = figures(output, r"(\d+) and (\d+) rows")
    mine, theirs = one.columns or {}, other.columns or {}
    names = code(one.name), code(other.name)
    body = [["rows", left, right], ["columns", str(len(mine)), str(len(theirs))]]
    only = [[c for c in mine if c not in theirs], [c for c in theirs if c not in mine]]
    lines = [f"- Only in {n}: {codes(c)}" for n, c in zip(names, only, strict=True) if c]
    changed = [c for c in mine if c in theirs and c not in shared]
    lines += [
        f"- {code(c)} is {cell(mine[c])} in {names[0]}, {cell(theirs[c])} in {names[1]}"
        for c in changed
    ]
    if shared:
        common = dict(block(output, ["_merge", "count"]))
        lines.append(
            f"- Different rows over the {len(shared)} shared columns: {common.get('both', '0')} in both, "
            f"{common.get('left_only', '0')} only in {names[0]}, {common.get('right_only', '0')} only in {names[1]}"
        )
    head = f"**{names[0]} and {names[1]}**"
    return f"{head}\n\n{table(['', *map(label, (one.name, other.name))], body)}\n\n" + "\n".join(
        lines
    )


def _by_key(ask: Ask, other: Table, key: str) -> Step:
    shared = [c for c in ask.table.columns or {} if c in (other.columns or {}) and c != key]
    if key not in (other.columns or {}) or not shared:
        raise MisfitError(f"Both tables need {code(key)} and one more column in common.")
    left, right, keys, differs = map(ask.name, ("left", "right", "shared_keys", "differs"))
    lines = [
        f"{left} = {ask.table.name}.set_index({literal(key)})[{literal(shared)}]",
        f"{right} = {other.name}.set_index({literal(key)})[{literal(shared)}]",
        f"{keys} = {left}.index.intersection({right}.index)",
        f'print(len({left}), "and", len({right}), "rows,", len({keys}), "shared keys")',
        f"{left}, {right} = {left}.loc[{keys}], {right}.loc[{keys}]",
        f"{differs} = ({left} != {right}) & ({left}.notna() | {right}.notna())",
        f'print({differs}.sum().rename("differences").to_csv(index_label="column"))',
    ]

    def answer(output: str) -> str:
        ours, theirs, common = figures(output, r"(\d+) and (\d+) rows, (\d+) shared keys")
        body = [[label(c), n] for c, n in block(output, ["column", "differences"])]
        head = f"**{code(ask.table.name)} ({ours} rows) and {code(other.name)} ({theirs} rows)** share {common} values of {code(key)}"
        return f"{head}\n\n{table(['column', 'rows that differ'], body)}"

    return ask.python(f"compare {ask.table.name} and {other.name} by {key}", lines, answer)


TABLES = "(COMPARE|DIFFERENCE) (BETWEEN|OF)? TABLE (AND|WITH|TO|VS) TABLE"
KEYED = f"{TABLES} (BY|ON) COL"
RULES = (
    Rule(
        "COMPARE COL (BETWEEN|OF|FOR|IN|BY)? PAIR | COMPARE PAIR (BY|IN|ON|FOR) COL",
        _two_groups,
        "where",
    ),
    Rule(
        "DIFFERENCE (IN|OF) (STAT)? COL BETWEEN PAIR | COL DIFFERENCE BETWEEN PAIR",
        _two_groups,
        "where",
    ),
    Rule("COMPARE COL (BETWEEN COL)?", _by_column, "where by digits"),
)
