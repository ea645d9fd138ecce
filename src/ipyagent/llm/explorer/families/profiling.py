"""A profile: types, missing values, ranges, outliers, duplicates, cardinality, correlations."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.markdown import block, cell, code, figures, label, number, percent, table
from ipyagent.llm.explorer.snippets import literal
from ipyagent.llm.explorer.steps import Step, UnreadableError

_HEADING = ["column", "type", "missing", "distinct", "min", "median", "max", "outliers"]
_PAIRS = ["a", "b", "r"]


def _profile(ask: Ask) -> Step:
    lines = _polars(ask) if ask.table.library == "polars" else _pandas(ask)
    return ask.python("profile", lines, lambda output: _answer(ask, output))


def _pandas(ask: Ask) -> list[str]:
    name, profile = ask.table.name, ask.name(f"{ask.table.name}_profile")
    numbers, low, high, reach = map(ask.name, ("numbers", "low", "high", "reach"))
    outside, pairs = map(ask.name, ("outside", "pairs"))
    return [
        f'{numbers} = {name}.select_dtypes("number")',
        f"{low}, {high} = {numbers}.quantile(0.25), {numbers}.quantile(0.75)",
        f"{reach} = 1.5 * ({high} - {low})  # the usual fences for outliers",
        f'{profile} = {name}.dtypes.astype(str).to_frame("type")',
        f'{profile}["missing"] = {name}.isna().sum()',
        f'{profile}["distinct"] = {name}.nunique()',
        f'{profile}[["min", "median", "max"]] = {numbers}.agg(["min", "median", "max"]).T',
        f"{outside} = ({numbers} < {low} - {reach}) | ({numbers} > {high} + {reach})",
        f'{profile}["outliers"] = {outside}.sum()',
        f'print(len({name}), "rows,", {name}.duplicated().sum(), "duplicates")',
        f'print({profile}.to_csv(index_label="column"))',
        *_correlations(ask, pairs, numbers),
    ]


def _correlations(ask: Ask, pairs: str, numbers: str) -> list[str]:
    if len(ask.table.of_kind("number")) < 2:
        return []
    return [
        f"{pairs} = {numbers}.corr().unstack()",
        f"{pairs} = {pairs}[[a < b for a, b in {pairs}.index]]",
        f"{pairs} = {pairs}.sort_values(key=abs, ascending=False).head(3)",
        f'print({pairs}.to_csv(header=["r"], index_label=["a", "b"]))',
    ]


def _polars(ask: Ask) -> list[str]:
    name = ask.table.name
    column, values, low, high, reach = map(ask.name, ("column", "values", "low", "high", "reach"))
    distinct = f"{name}[{column}].drop_nulls().n_unique()"
    first = f"{column}, {name}[{column}].dtype, {name}[{column}].null_count(), {distinct}"
    numbers = ask.table.of_kind("number")
    others = [c for c in ask.table.columns or {} if c not in numbers]
    lines = [
        f'print(len({name}), "rows,", len({name}) - len({name}.unique()), "duplicates")',
        f'print("{",".join(_HEADING)}")',
    ]
    if others:
        lines += [
            f"for {column} in {literal(others)}:",
            f'    print({first}, "", "", "", "", sep=",")',
        ]
    if numbers:
        lines += [
            f"for {column} in {literal(numbers)}:",
            f"    {values} = {name}[{column}].drop_nulls()",
            f'    {low} = {values}.quantile(0.25, "linear")',
            f'    {high} = {values}.quantile(0.75, "linear")',
            f"    {reach} = 1.5 * ({high} - {low})  # the usual fences for outliers",
            f"    print({first}, {values}.min(), {values}.median(), {values}.max(), "
            f'(({values} < {low} - {reach}) | ({values} > {high} + {reach})).sum(), sep=",")',
        ]
    return lines


def _answer(ask: Ask, output: str) -> str:
    rows, duplicates = figures(output, r"(\d+) rows, (\d+) duplicates")
    found = block(output, _HEADING)
    if not found:
        raise UnreadableError("the profile has no columns")
    order = list(ask.table.columns or {})
    found.sort(key=lambda row: order.index(row[0]) if row[0] in order else len(order))
    body = [[label(row[0]), cell(row[1]), *_figures(row[2:])] for row in found]
    name = code(ask.table.name)
    size = f"{number(rows)} rows, {len(found)} columns, {_duplicate(duplicates)}"
    head = f"**{name}: {size}**"
    parts = [head, table(_HEADING, body, left=2), *_notes(found, int(rows)), *_related(ask, output)]
    return "\n\n".join(part for part in parts if part)


def _figures(cells: list[str]) -> list[str]:
    return ["" if value in ("", "nan", "None") else number(value) for value in cells]


def _duplicate(count: str) -> str:
    return "no duplicate rows" if count == "0" else f"{count} duplicate rows"


def _notes(found: list[list[str]], rows: int) -> list[str]:
    """What an analyst would look at first."""
    notes = []
    gaps = sorted((row for row in found if int(row[2])), key=lambda row: -int(row[2]))
    if gaps:
        worst = gaps[0]
        share = percent(worst[2], rows)
        notes.append(
            f"- Missing: {len(gaps)} columns, most in {code(worst[0])} ({worst[2]}, {share})"
        )
    if constant := [code(row[0]) for row in found if row[3] in ("0", "1") and rows > 1]:
        notes.append(f"- Constant: {', '.join(constant)}")
    if keys := [code(row[0]) for row in found if int(row[3]) == rows and rows > 1]:
        notes.append(f"- Different in every row: {', '.join(keys)}")
    outside = [f"{code(row[0])} ({number(row[7])})" for row in found if _some(row[7])]
    notes.append(f"- Outliers (IQR rule): {', '.join(outside) or 'none'}")
    return ["\n".join(notes)]


def _some(value: str) -> bool:
    return value not in ("", "nan") and float(value) > 0


def _related(ask: Ask, output: str) -> list[str]:
    try:
        pairs = block(output, _PAIRS)
    except UnreadableError:
        return []
    said = [f"{code(a)} and {code(b)} ({number(r, 2)})" for a, b, r in pairs if r]
    return [f"Strongest correlations: {', '.join(said)}."] if said else []


RULES = (Rule("PROFILE (OF|IN)? | NOUN? PROFILE | NEW PROFILE OF?", _profile),)
