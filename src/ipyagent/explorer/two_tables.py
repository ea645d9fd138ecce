"""Two tables: compared as a whole, compared by a key, or joined."""

from __future__ import annotations

from ipyagent.explorer.markdown import block, cell, code, codes, figures, label, table
from ipyagent.explorer.query import Query
from ipyagent.explorer.snippets import literal, print_chain
from ipyagent.explorer.steps import MisfitError, Part
from ipyagent.explorer.workspace import Table


def compare_tables(query: Query, other: Table, key: str | None) -> Part:
    """Compare two tables: size, columns and types; common rows, or differences by a key."""
    one, theirs = query.table, other.columns or {}
    if key:
        return _by_key(query, other, key)
    shared = [name for name, dtype in (one.columns or {}).items() if theirs.get(name) == dtype]
    chosen = "" if shared == list(one.columns or {}) == list(theirs) else f"[{literal(shared)}]"
    lines = [f'print(len({one.name}), "and", len({other.name}), "rows")']
    if shared:
        merged = f'{other.name}{chosen}.drop_duplicates(), how="outer", indicator=True'
        links = [
            ".drop_duplicates()",
            f'.merge({merged})["_merge"]',
            ".value_counts()",
            ".to_csv()",
        ]
        lines += print_chain(f"{one.name}{chosen}", *links)
    rule = f"compare {one.name} and {other.name}"
    return query.part(rule, lines, lambda out: _describe(one, other, shared, out))


def _describe(one: Table, other: Table, shared: list[str], output: str) -> str:
    left, right = figures(output, r"(\d+) and (\d+) rows")
    mine, theirs = one.columns or {}, other.columns or {}
    names = code(one.name), code(other.name)
    only = [[c for c in mine if c not in theirs], [c for c in theirs if c not in mine]]
    notes = [f"- Only in {n}: {codes(c)}" for n, c in zip(names, only, strict=True) if c]
    for c in (c for c in mine if c in theirs and c not in shared):
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


def _by_key(query: Query, other: Table, key: str) -> Part:
    mine, theirs = query.table, other.columns or {}
    shared = [c for c in mine.columns or {} if c in theirs and c != key]
    if key not in theirs or not shared:
        raise MisfitError(f"Both tables need {code(key)} and one more column in common.")
    name = query.name("differences")
    tables = [f"{t}.set_index({literal(key)})[{literal(shared)}]" for t in (mine.name, other.name)]
    lines = [
        f"def {name}(left, right):",
        "    keys = left.index.intersection(right.index)",
        '    print(len(left), "and", len(right), "rows,", len(keys), "shared keys")',
        "    left, right = left.loc[keys], right.loc[keys]",
        "    return ((left != right) & (left.notna() | right.notna())).sum()",
        *print_chain(
            f"{name}({', '.join(tables)})",
            '.rename("differences")',
            '.to_csv(index_label="column")',
        ),
    ]

    def answer(output: str) -> str:
        ours, others, common = figures(output, r"(\d+) and (\d+) rows, (\d+) shared keys")
        body = [[label(c), n] for c, n in block(output, ["column", "differences"])]
        sizes = f"{code(mine.name)} ({ours} rows) and {code(other.name)} ({others} rows)"
        head = f"**{sizes} share {common} values of {code(key)}**"
        return f"{head}\n\n{table(['column', 'rows that differ'], body)}"

    return query.part(f"compare {mine.name} and {other.name} by {key}", lines, answer, name)


def join_tables(query: Query, other: Table, key: str | None) -> Part:
    """Join two tables by a column that both have, into a new one."""
    one = query.table
    shared = [c for c in one.columns or {} if c in (other.columns or {})]
    keys = [key] if key else shared
    if len(keys) != 1 or keys[0] not in shared:
        raise MisfitError(f"By which column? Both have {codes(shared) if shared else 'none'}.")
    name = query.name(f"{one.name}_{other.name}")
    lines = [
        f'{name} = {one.name}.merge({other.name}, on={literal(keys[0])}, how="left")',
        f'print(len({one.name}), len({name}), {name}.shape[1], "joined")',
    ]

    def answer(output: str) -> str:
        before, rows, columns = figures(output, r"(\d+) (\d+) (\d+) joined")
        more = " Some keys repeat in the second one." if before != rows else ""
        names = f"{code(one.name)} and {code(other.name)} by {code(keys[0])} into **{code(name)}**"
        return f"Joined {names}: {rows} rows, {columns} columns.{more}"

    return query.part(f"join {one.name} and {other.name}", lines, answer)
